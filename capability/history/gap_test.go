package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// record records n events of one workflow, each of which the one before has caused.
func record(j *journal.Journal, from, n int) {
	for i := from; i < from+n; i++ {
		m := kerneltest.Request(message.KindEvent, message.ID(fmt.Sprint(i)), "Test.Happened", `"a word"`)
		m.Metadata.Correlation, m.Metadata.Causation = "w", message.ID(fmt.Sprint(i-1))
		j.Record(kernel.Record{Message: &m, Way: kernel.In})
	}
}

// trimmed is a kernel on a journal that has dropped its first 20 messages, of two hours ago,
// and has some more. It returns when the last of those was recorded.
func trimmed(t *testing.T) (*kernel.Kernel, int64) {
	t.Helper()
	j, _ := newJournal(t, &journal.Options{Retention: journal.Retention{MaxAge: time.Hour}})
	record(j, 1, 20)
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Hour)
	d, err := j.Trim(t.Context(), time.Now())
	if err != nil || d.Messages != 20 {
		t.Fatalf("dropped %+v, %v", d, err)
	}
	record(j, 21, 5)
	return kerneltest.Of(t, nil, Module(j, nil)), d.At
}

// No reader takes what is left for all that there was.
func TestEveryAnswerSaysWhatIsDropped(t *testing.T) {
	synctest.Test(t, everyAnswerSaysWhatIsDropped)
}

func everyAnswerSaysWhatIsDropped(t *testing.T) {
	k, at := trimmed(t)
	member := fmt.Sprintf(`"dropped":{"messages":20,"until":%d,"why":"age"}`, at)
	words := "it has dropped the 20 messages that were recorded until "
	for _, c := range []struct {
		name message.Type
		data string
		want string
	}{
		{"Message.List", `{"limit":1}`, member},
		{"Message.Search", `{"query":"word","limit":1}`, member},
		{"Message.Search", `{"query":"nothing"}`, member},
		{"Message.Graph", `{"correlationId":"w","format":"json"}`, member},
		{"Message.Replay", `{"correlationId":"w"}`, member},
		{"Message.Graph", `{"correlationId":"w"}`, `  %% The journal is not whole: ` + words},
		{"Message.Graph", `{"correlationId":"w","format":"dot"}`, `  // The journal is not whole: ` + words},
		{"Message.Graph", `{"correlationId":"w","format":"tree"}`, `◌ the journal is not whole: ` + words},
	} {
		_, got := kerneltest.Exchange(k, kerneltest.Query("ask", c.name, c.data))
		if got.Kind != message.KindReply || !strings.Contains(string(got.Data), c.want) {
			t.Errorf("%s %s: %s %s", c.name, c.data, got.Kind, got.Data)
		}
		s, _ := k.Registry().Lookup(c.name)
		if err := s.Output.Validate(got.Data); err != nil {
			t.Errorf("%s %s: %v", c.name, c.data, err)
		}
	}
	_, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Search", fmt.Sprintf(`{"query":"word","since":%d}`, at+1)))
	if strings.Contains(string(got.Data), "dropped") {
		t.Errorf("what was dropped was before that: %s", got.Data)
	}
}

func TestAWatchFromTheBeginningTellsWhatIsDropped(t *testing.T) {
	synctest.Test(t, aWatchFromTheBeginningTellsWhatIsDropped)
}

func aWatchFromTheBeginningTellsWhatIsDropped(t *testing.T) {
	k, at := trimmed(t)
	const missed = `Message.Missed {"from":1,"to":20,"count":20}; `
	for data, want := range map[string]string{
		`{"after":0,"limit":1}`:                               missed + `Message.Recorded 21; {"next":22,"messages":1}`,
		`{"from":0,"limit":1}`:                                missed + `Message.Recorded 21; {"next":22,"messages":1}`,
		`{"from":1,"limit":1}`:                                missed + `Message.Recorded 21; {"next":22,"messages":1}`,
		`{"after":20,"limit":1}`:                              `Message.Recorded 21; {"next":22,"messages":1}`,
		`{"since":"1h","limit":1}`:                            `Message.Recorded 21; {"next":22,"messages":1}`, // nothing of that time
		fmt.Sprintf(`{"since":%d,"limit":1}`, at+1):           `Message.Recorded 21; {"next":22,"messages":1}`,
		fmt.Sprintf(`{"since":%d,"limit":1}`, at):             missed + `Message.Recorded 21; {"next":22,"messages":1}`,
		fmt.Sprintf(`{"since":%d,"limit":1,"after":0}`, at+1): missed + `Message.Recorded 21; {"next":22,"messages":1}`,
	} {
		events, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Watch", data))
		if got := inBrief(t, events, got); got != want {
			t.Errorf("%s: %s", data, got)
		}
	}
}

// A page goes on where the one before ended, whatever was recorded meanwhile.
func TestPagesOfASearchDoNotRepeat(t *testing.T) {
	j, _ := newJournal(t, nil)
	k := kerneltest.Of(t, nil, Module(j, nil))
	record(j, 0, 50)
	var seen []uint64
	for cursor := ""; ; {
		_, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Search", `{"query":"word","limit":7,"records":true`+cursor+`}`))
		var out struct {
			Records []struct{ Seq uint64 }
			Total   int
			Cursor  string
		}
		if err := json.Unmarshal(got.Data, &out); err != nil || out.Total != 50 {
			t.Fatalf("%s, %v", got.Data, err)
		}
		for _, r := range out.Records {
			seen = append(seen, r.Seq)
		}
		if out.Cursor == "" {
			break
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, out.Cursor)
		record(j, 50+len(seen), 7)
	}
	slices.Sort(seen)
	if n := len(slices.Compact(slices.Clone(seen))); n != 50 || len(seen) != 50 || seen[49] != 50 {
		t.Errorf("saw %v", seen)
	}
}
