package session_test

import (
	"fmt"
	"testing"

	"kernos/kernel/principal"
)

// A session is found by the short form of its id that tables have, by callers that see it.
func TestShortIDs(t *testing.T) {
	test(t, "short ids", func(t *testing.T, w *world) {
		one, two := w.create(`{}`), w.create(`{}`)
		stranger := w.token("ci", principal.Grant{Preset: principal.Agent})
		for _, c := range []struct {
			who   *principal.Principal
			given string
			want  string
			code  int
		}{
			{nil, one[:5] + "…" + one[18:], one, 0},
			{nil, "…" + two[20:], two, 0},
			{nil, one[:5] + "…", "", 422},
			{nil, "…nothing", "", 404},
			{nil, one + "…" + one, "", 404},
			{stranger, "…" + one[20:], "", 404},
		} {
			var got struct{ Session string }
			e := w.callAs(c.who, "Session.Get", fmt.Sprintf(`{"session":%q}`, c.given), &got)
			if code := 0; e != nil {
				if code = e.Code; code != c.code {
					t.Errorf("%s: %v", c.given, e)
				}
			} else if got.Session != c.want || c.code != 0 {
				t.Errorf("%s: got %q, want %q", c.given, got.Session, c.want)
			}
		}
		w.must("Session.Delete", fmt.Sprintf(`{"session":%q}`, "…"+two[20:]), nil)
		w.wants(404, w.callAs(nil, "Session.Get", fmt.Sprintf(`{"session":%q}`, two), nil), "not found")
	})
}
