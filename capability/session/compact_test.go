package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"kernos/message"
)

// A strict is a model that takes a limited number of bytes of messages, and refuses longer conversations.
type strict struct {
	w       *world
	takes   int
	deaf    bool // it summarizes nothing
	longest int
	refused int
	next    func(generateInput) answer
}

func (s *strict) answer(in generateInput) answer {
	size := 0
	for _, m := range in.Messages {
		size += len(m.Text)
		for _, r := range m.Results {
			size += len(r.Output)
		}
	}
	asked := strings.HasPrefix(in.Messages[len(in.Messages)-1].Text, "Summarize the conversation")
	switch {
	case size > s.takes || asked && s.deaf:
		s.refused++
		return answer{fail: message.Errorf(413, "The conversation is longer than the model takes")}
	case asked:
		return answer{text: "SUM"}
	}
	s.longest = max(s.longest, size)
	return s.next(in)
}

// A conversation that gets longer than the model takes is summarized before the model is asked
// again.
func TestALongConversation(t *testing.T) {
	long := strings.Repeat("word ", 60)
	for _, c := range []struct {
		name, made string
		room       int // tokens, as it is known; 0 means that only the model knows
		deaf       bool
		calls      bool
		status     string
		has        string // in what the model is shown at last
		refused    bool   // the model had to say it
	}{
		{name: "the room is known", made: `{"system":"S","tools":["Test.Look"]}`, room: 600, status: "done", has: "SUM"},
		{name: "only the model knows", made: `{"system":"S"}`, status: "done", has: "SUM", refused: true},
		{name: "the summary would be too long too", made: `{"system":"S"}`, deaf: true, status: "done", has: "were left out", refused: true},
		{name: "in one turn with calls", made: `{"system":"S","tools":["Test.Look"]}`, room: 600, calls: true, status: "done", has: "SUM"},
		{name: "in one turn with calls, only the model knows", made: `{"system":"S","tools":["Test.Look"]}`, calls: true, status: "done", has: "SUM", refused: true},
		{name: "the tools alone leave no room", made: `{"system":"S","tools":["Test.Look"]}`, room: 10, status: "done", has: "SUM", refused: true},
		{name: "it is switched off", made: `{"system":"S","compact":"never"}`, room: 600, status: "limited", refused: true},
	} {
		test(t, c.name, func(t *testing.T, w *world) {
			w.room = c.room
			steps := 0
			model := &strict{w: w, takes: 1800, deaf: c.deaf, next: func(in generateInput) answer {
				if steps++; c.calls && steps%10 != 0 {
					return answer{calls: []string{fmt.Sprintf(`Test.Look {"key":%q}`, long)}}
				}
				return answer{text: long}
			}}
			w.script = model.answer
			id := w.create(c.made)
			var out turn
			for n := range 8 {
				if out = w.say(id, fmt.Sprint("question ", n)); out.Status != "done" {
					break
				}
				last := w.asked[len(w.asked)-1]
				if got := last.Messages[len(last.Messages)-1]; last.System != "S" || !c.calls && got.Text != fmt.Sprint("question ", n) {
					t.Errorf("the model was shown %q and %+v", last.System, got)
				}
			}
			w.check(id)
			if out.Status != c.status || c.refused != (model.refused > 0) {
				t.Errorf("got %+v, the model has refused %d times", out, model.refused)
			}
			if c.status != "done" {
				if e := out.Error; e == nil || e.Code != 413 {
					t.Errorf("got %+v", out)
				}
				w.must("Session.Compact", fmt.Sprintf(`{"session":%q,"keep":3}`, id), nil)
				w.must("Session.Continue", fmt.Sprintf(`{"session":%q}`, id), nil)
				synctest.Wait()
				if i := w.get(id); i.Last.Status != "done" {
					t.Errorf("it doesn't go on: %+v", i)
				}
				return
			}
			shown := ""
			for _, m := range w.asked[len(w.asked)-1].Messages {
				shown += m.Text
			}
			if !strings.Contains(shown, c.has) || model.longest < 600 {
				t.Errorf("at last the model was shown %s; the longest conversation had %d bytes", shown, model.longest)
			}
		})
	}
	test(t, "nothing is left to summarize", func(t *testing.T, w *world) {
		w.script = (&strict{w: w, takes: 100}).answer
		id := w.create(`{}`)
		if out := w.say(id, long); out.Status != "limited" || out.Error.Code != 413 || len(w.asked) != 1 {
			t.Errorf("got %+v after %d requests", out, len(w.asked))
		}
	})
}

// A model that isn't configured is refused when it is named.
func TestAModelThatIsntConfigured(t *testing.T) {
	test(t, "", func(t *testing.T, w *world) {
		w.wants(404, w.callAs(nil, "Session.Create", `{"model":"nope"}`, nil), "isn't configured")
		w.wants(404, w.callAs(nil, "Agent.Ask", `{"model":"nope","text":"x"}`, nil), "isn't configured")
		w.wants(404, w.callAs(nil, "Session.Send", fmt.Sprintf(`{"session":%q,"text":"x","model":"nope"}`, w.create(`{}`)), nil), "isn't configured")
		w.wants(404, w.callAs(nil, "Session.Send", `{"session":"XX","text":"x"}`, nil), "has 26 characters")
	})
}
