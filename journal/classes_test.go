package journal

import (
	"testing"
	"time"

	"kernos/internal/ranked"
	"kernos/message"
)

// A filter finds the same by the classes that are kept in memory, while messages are recorded and retention drops others.
func TestClassesFollowMessages(t *testing.T) {
	j := open(t, memory(t), &Options{Retention: Retention{MaxBytes: 5 << 10}})
	for round, age := range []time.Duration{0, 0, 0, 0, 2 * MinAge, 0} {
		conversation(j, 200)
		j.SetRetention(Retention{MaxBytes: 5 << 10, MaxAge: age})
		for _, trim := range []bool{false, true} {
			if trim {
				if d, err := j.Trim(t.Context(), time.Now().Add(age*2)); err != nil || d.Messages == 0 && round > 1 {
					t.Fatalf("round %d: retention has dropped %d messages, %v", round, d.Messages, err)
				}
			}
			for _, f := range []Filter{{Kinds: []message.Kind{message.KindReply, message.KindError}}, {Type: "Memory.*,Ping"}, {Type: "*.Get"}, {Codes: []int{401, 403}}} {
				list, _, err := j.List(t.Context(), Query{Filter: f, Limit: MaxLimit})
				if err != nil {
					t.Fatal(err)
				}
				found, err := searchAll(t, j, SearchQuery{Filter: f, Words: "ok text code", Mode: ranked.ByWords, Limit: MaxLimit})
				if err != nil || found.Total != len(list) || len(found.Hits) != len(list) {
					t.Fatalf("round %d, %+v: a search finds %d of %d, there are %d, %v", round, f, len(found.Hits), found.Total, len(list), err)
				}
				if j.classes.of == nil && len(list) > 0 {
					t.Fatalf("round %d, %+v: the search didn't go by classes", round, f)
				}
			}
		}
	}
	j.classes.forget()
	if j.classes.of != nil || j.classes.list != nil {
		t.Error("classes are kept")
	}
}
