package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"kernos/message"
)

// What sounds like a credential is stored, shown to the model and called as it is, also by the process that takes over; the
// records have none of it.
func TestWhatSoundsLikeACredentialStaysWhole(t *testing.T) {
	const args = `{"key":"bank password","value":"swordfish"}`
	test(t, "in calls and their results", func(t *testing.T, w *world) {
		id := w.create(`{"tools":["Test.*"]}`)
		w.scripted(answer{text: "password: swordfish", calls: []string{"Test.Outside " + args}}, answer{text: "done"})
		w.send(id, "remember my bank password is swordfish")
		synctest.Wait()
		asked := w.request(id)
		w.restart(0)
		synctest.Wait()
		w.scripted(answer{text: "done"})
		w.must("Session.Decide", decision(id, asked.Call, `"decision":"allow"`), nil)
		synctest.Wait()
		if seen := w.outside(); len(seen) != 1 || seen[0] != "bank passwordswordfish" {
			t.Errorf("the call was made with %q", seen)
		}
		var said, called, came string
		for _, m := range w.all(id) {
			switch {
			case m.Type == "reply" && said == "":
				said = m.Text
			case m.Calls != nil:
				called = string(m.Calls[0].Args)
			case m.Results != nil:
				came = string(m.Results[0].Output)
			}
		}
		if said != "password: swordfish" || called != args || came != args {
			t.Errorf("stored %s, %s and %s", said, called, came)
		}
		if last := string(w.asked[len(w.asked)-1].raw); strings.Count(last, args) != 2 || strings.Contains(last, "[redacted]") {
			t.Errorf("the model is sent %s", last)
		}
		var fork struct{ Session string }
		w.must("Session.Fork", fmt.Sprintf(`{"session":%q}`, id), &fork)
		w.say(fork.Session, "and?")
		if last := string(w.asked[len(w.asked)-1].raw); strings.Count(last, args) != 2 {
			t.Errorf("in a fork, the model is sent %s", last)
		}
		for _, m := range w.messages {
			if m.Type == "Test.Outside" && strings.Contains(string(m.Data), "swordfish") {
				t.Errorf("recorded %s", message.Append(nil, &m))
			}
		}
	})
	test(t, "in what is streamed, also if it is cut off", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		hold := make(chan struct{})
		w.scripted(answer{deltas: []string{"password: swordfish"}, hold: hold})
		w.send(id, "what is my password?")
		synctest.Wait()
		w.must("Session.Cancel", fmt.Sprintf(`{"session":%q}`, id), nil)
		synctest.Wait()
		if all := w.all(id); all[len(all)-1].Text != "password: swordfish" {
			t.Errorf("stored %+v", all[len(all)-1])
		}
	})
}
