package job_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"kernos/capability/job"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

func TestShortIDs(t *testing.T) {
	test(t, "name one job", func(t *testing.T, w *world) {
		one := w.start(`{"name":"Test.Count","payload":{"key":"a"}}`)
		other := w.start(`{"name":"Test.Count","payload":{"key":"a"}}`)
		theirs := w.token("other", principal.Grant{Preset: principal.Agent})
		for _, c := range []struct {
			principal *principal.Principal
			id        string
			want      string
			code      int
		}{
			{nil, one[:5] + "…" + one[20:], one, 0},
			{nil, other[:5] + "…" + other[20:], other, 0},
			{nil, "…" + one[20:], one, 0},
			{nil, one[:5] + "…", "", 422},
			{nil, "…nothing", "", 404},
			{nil, one + "…" + one, "", 404},
			{theirs, one[:5] + "…" + one[20:], "", 404},
		} {
			var i info
			e := w.callAs(c.principal, "Job.Wait", fmt.Sprintf(`{"jobId":%q}`, c.id), &i)
			if e == nil && (c.code != 0 || i.JobID != c.want) || e != nil && e.Code != c.code {
				t.Errorf("%s: %+v, %v; want %s or %d", c.id, i, e, c.want, c.code)
			}
		}
	})
}

func TestAListHasPages(t *testing.T) {
	test(t, "of all, and of those that a filter leaves", func(t *testing.T, w *world) {
		for i := range 5 {
			w.start(fmt.Sprintf(`{"name":"Test.Count","payload":{"key":"k%d"}}`, i))
			w.start(`{"name":"Test.Outside","payload":{"key":"x"}}`)
		}
		synctest.Wait()
		for filter, want := range map[string][]int{`"limit":4`: {4, 4, 2}, `"limit":5`: {5, 5}, `"name":"Test.Count","limit":2`: {2, 2, 1}, `"since":"1h"`: {10}, `"since":"2999-01-01"`: {0}} {
			seen := make(map[string]bool)
			var pages []int
			for cursor := ""; ; {
				var out struct {
					Jobs   []info
					Cursor string
				}
				w.must("Job.List", fmt.Sprintf(`{%s,"cursor":%q}`, filter, cursor), &out)
				pages = append(pages, len(out.Jobs))
				for _, i := range out.Jobs {
					if seen[i.JobID] {
						t.Errorf("%s: %s is listed twice", filter, i.JobID)
					}
					seen[i.JobID] = true
				}
				if cursor = out.Cursor; cursor == "" {
					break
				}
			}
			if !slices.Equal(pages, want) {
				t.Errorf("%s: the pages have %v jobs, want %v", filter, pages, want)
			}
		}
	})
}

// One that has failed is found behind more jobs than a page looks at: they are passed over by their states.
func TestAFailedJobIsFoundBehindManyOthers(t *testing.T) {
	test(t, "in one page", func(t *testing.T, w *world) {
		w.fail = func(string) error { return message.Errorf(418, "No") }
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"}}`)
		w.wants("at once", id, "failed 418")
		var b store.Batch
		for i := range job.Looked + 1 {
			job.AddCompleted(&b, fmt.Sprintf("Z%025d", i))
		}
		if _, err := w.store.Apply(&b); err != nil {
			t.Fatal(err)
		}
		for filter, want := range map[string]string{`"status":"failed"`: id, `"status":"completed","limit":1`: fmt.Sprintf("Z%025d", job.Looked)} {
			var out struct{ Jobs []info }
			if w.must("Job.List", "{"+filter+"}", &out); len(out.Jobs) != 1 || out.Jobs[0].JobID != want {
				t.Errorf("%s: %+v, want %s", filter, out.Jobs, want)
			}
		}
	})
}
