package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

// recordOf is a request as the journal has it.
func recordOf(request message.Message) string { return string(message.Append(nil, &request)) }

// answerOf is what answers it.
func answerOf(request message.Message) string {
	return fmt.Sprintf(`{"kind":"reply","type":%q,"data":"[omitted]","metadata":{"id":"x","timestamp":1,"correlation":%q}}`, request.Type, request.Metadata.Correlation)
}

// recordedEvent is what a watch says of a message.
func recordedEvent(request message.Message, seq int, recorded string) message.Message {
	return request.Event("Message.Recorded", json.RawMessage(fmt.Sprintf(`{"seq":%d,"at":1,"message":%s}`, seq, recorded)))
}

func TestALogDoesNotShowItself(t *testing.T) {
	s := &script{t: t}
	var asked message.Message
	s.answers = append(s.answers,
		func(request message.Message, _ func(message.Message)) message.Message {
			asked = request
			return request.Reply(json.RawMessage(`{"messages":[` + recordOf(request) + `,` + second + `,` + first + `],"records":[{"seq":3},{"seq":2},{"seq":1}],"cursor":"d1"}`))
		},
		func(request message.Message, event func(message.Message)) message.Message {
			event(recordedEvent(request, 3, recordOf(asked)))
			event(recordedEvent(request, 4, answerOf(asked)))
			event(recordedEvent(request, 5, recordOf(request)))
			event(recordedEvent(request, 6, first))
			return request.Reply(json.RawMessage(`{"next":7,"messages":4}`))
		})
	out, _, status := runWith(t, s, "log", "-n", "2", "--json", "--follow")
	if out != first+"\n"+second+"\n"+first+"\n" || status != 0 || s.asked[1] != `query Message.Watch {"after":2}` {
		t.Errorf("got %d %s after %s", status, out, s.asked)
	}
}

// A kernel in this process records nothing of what it is asked, so there may be one too many.
func TestALogThatIsNotRecorded(t *testing.T) {
	s := &script{t: t}
	s.answers = append(s.answers, reply(`{"messages":[`+second+`,`+first+`],"records":[{"seq":2},{"seq":1}]}`))
	if out, _, status := runWith(t, s, "log", "-n", "1", "--json"); out != second+"\n" || status != 0 {
		t.Errorf("got %d %s", status, out)
	}
}

func TestALogOfEverythingEndsBeforeItself(t *testing.T) {
	s := &script{t: t}
	var asked message.Message
	s.answers = append(s.answers,
		func(request message.Message, _ func(message.Message)) message.Message {
			asked = request
			return request.Reply(json.RawMessage(`{"messages":[` + recordOf(request) + `,` + first + `],"records":[{"seq":2},{"seq":1}]}`))
		},
		func(request message.Message, _ func(message.Message)) message.Message {
			return request.Reply(json.RawMessage(`{"messages":[` + first + `,` + recordOf(asked) + `,` + answerOf(asked) + `,` + recordOf(request) + `],"records":[{"seq":1},{"seq":2},{"seq":3},{"seq":4}]}`))
		})
	if out, _, status := runWith(t, s, "log", "-n", "0", "--json"); out != first+"\n" || status != 0 {
		t.Errorf("got %d %s", status, out)
	}
	// A journal in which there is nothing else is as good as empty.
	s.answers = append(s.answers,
		func(request message.Message, _ func(message.Message)) message.Message {
			asked = request
			return request.Reply(json.RawMessage(`{"messages":[` + recordOf(request) + `],"records":[{"seq":1}]}`))
		},
		func(request message.Message, _ func(message.Message)) message.Message {
			return request.Reply(json.RawMessage(`{"messages":[` + recordOf(asked) + `],"records":[{"seq":1}]}`))
		})
	if out, notes, status := runWith(t, s, "log", "-n", "0"); out != "" || !strings.Contains(notes, "no message in the journal matches") || status != 0 {
		t.Errorf("got %d %s%s", status, out, notes)
	}
}

// What is not shown does not count.
func TestAWatchDoesNotCountItself(t *testing.T) {
	s := &script{t: t}
	var asked message.Message
	s.answers = append(s.answers,
		func(request message.Message, event func(message.Message)) message.Message {
			asked = request
			event(recordedEvent(request, 1, first))
			event(recordedEvent(request, 2, recordOf(request)))
			return request.Reply(json.RawMessage(`{"next":3,"messages":2}`))
		},
		func(request message.Message, event func(message.Message)) message.Message {
			event(recordedEvent(request, 3, answerOf(asked)))
			event(recordedEvent(request, 4, recordOf(request)))
			event(recordedEvent(request, 5, second))
			event(recordedEvent(request, 6, first)) // it is over by then
			return request.Fail(&message.Error{Code: 499, Message: "Cancelled before it was done"})
		})
	out, notes, status := runWith(t, s, "watch", "--from", "1", "-n", "2", "--json")
	if out != first+"\n"+second+"\n" || notes != "" || status != 0 || s.asked[1] != `query Message.Watch {"from":3}` {
		t.Errorf("got %d %s%s after %s", status, out, notes, s.asked)
	}
	// A kernel that ends sooner is not asked again.
	s.answers = append(s.answers, func(request message.Message, event func(message.Message)) message.Message {
		event(recordedEvent(request, 1, recordOf(request)))
		return request.Reply(json.RawMessage(`{"next":2,"messages":1}`))
	})
	if out, _, status := runWith(t, s, "watch", "--from", "1", "-n", "2", "--json"); out != "" || status != 0 {
		t.Errorf("got %d %s", status, out)
	}
}

func TestASearchDoesNotFindItself(t *testing.T) {
	s := &script{t: t}
	s.answers = append(s.answers, func(request message.Message, _ func(message.Message)) message.Message {
		return request.Reply(json.RawMessage(`{"messages":[` + recordOf(request) + `,` + second + `],"scores":[3,1.5],"records":[{"at":0},{"at":0}],"total":2}`))
	})
	out, notes, status := runWith(t, s, "search", "a")
	if !strings.HasPrefix(out, "  1.50  ") || strings.Count(out, "\n") != 1 || notes != "" || status != 0 {
		t.Errorf("got %d %s%s", status, out, notes)
	}
}

// Through a daemon, which records everything.
func TestTheJournalOfADaemonDoesNotShowWhoLooks(t *testing.T) {
	h := newHouse(t)
	h.run(ping)
	ids := func(out string) (all []string) {
		for line := range strings.Lines(out) {
			var m struct{ Type string }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			all = append(all, m.Type)
		}
		return all
	}
	for _, args := range [][]string{{"log", "--json"}, {"log", "--json", "-n", "2"}, {"log", "--json", "-n", "0"}, {"watch", "--json", "--from", "1", "-n", "2"}} {
		h.run("", "stop")
		if err := h.forget(); err != nil {
			t.Fatal(err)
		}
		h.run(ping)
		out, notes, status := h.run("", args...)
		if got := strings.Join(ids(out), " "); got != "Ping Ping" || status != 0 || notes != "" {
			t.Errorf("%v: status %d: %s%s", args, status, got, notes)
		}
	}
	// Those who looked before are there to be seen.
	out, _, _ := h.run("", "log", "--json", "-n", "0")
	if got := strings.Join(ids(out), " "); !strings.HasPrefix(got, "Ping Ping Message.Watch") {
		t.Errorf("all is %s", got)
	}
}
