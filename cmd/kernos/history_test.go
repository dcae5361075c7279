package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/internal/exit"
	"kernos/message"
)

// scripted answers requests in order, and notes them.
type scripted struct {
	t       *testing.T
	asked   []string
	answers []func(request message.Message, event func(message.Message)) message.Message
}

func (s *scripted) call(_ context.Context, request message.Message, event func(json.RawMessage) error) (json.RawMessage, error) {
	s.asked = append(s.asked, fmt.Sprintf("%s %s %s", request.Kind, request.Type, request.Data))
	if len(s.answers) == 0 {
		s.t.Fatalf("asked for more: %s", s.asked)
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	var failed error
	outcome := answer(request, func(m message.Message) { failed = cmp.Or(failed, event(m.Data)) })
	if failed != nil {
		return nil, failed
	}
	if outcome.Kind == message.KindError {
		e, err := message.ParseError(outcome.Data)
		return nil, errors.Join(e, err)
	}
	return outcome.Data, nil
}

// reply is an answer without events.
func reply(data string) func(message.Message, func(message.Message)) message.Message {
	return func(request message.Message, _ func(message.Message)) message.Message {
		return request.Reply(json.RawMessage(data))
	}
}

func fail(code int, text string) func(message.Message, func(message.Message)) message.Message {
	return func(request message.Message, _ func(message.Message)) message.Message {
		return request.Fail(&message.Error{Code: code, Message: text})
	}
}

// runWith runs a command and returns what it wrote and the status that it leaves with.
func runWith(t *testing.T, s *scripted, args ...string) (out, notes string, status int) {
	t.Helper()
	root := &cobra.Command{Use: "kernos", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(historyCommands()...)
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetArgs(args)
	if err := root.ExecuteContext(line.WithKernel(t.Context(), s.call)); err != nil {
		status = exit.Usage
		if ended, ok := errors.AsType[*exit.Error](err); ok {
			status = ended.Status
		}
		fmt.Fprintln(&e, err)
	}
	return o.String(), e.String(), status
}

// numbered is a line of log --json: the message with how it was recorded.
func numbered(line, record string) string {
	return strings.TrimSuffix(line, "}") + `,"record":` + record + "}\n"
}

const (
	first  = `{"kind":"command","type":"Echo","data":{"message":"a"},"metadata":{"id":"a","timestamp":1}}`
	second = `{"kind":"reply","type":"Echo","data":{"echo":"a"},"metadata":{"id":"b","timestamp":1,"causation":"a"}}`
)

func TestLogPagesAndFollows(t *testing.T) {
	s := &scripted{t: t}
	s.answers = append(s.answers,
		reply(`{"messages":[`+second+`],"records":[{"seq":8,"at":5,"way":"out","principal":"ci","principalId":"01","wire":"unix"}],"cursor":"d8"}`),
		reply(`{"messages":[`+first+`],"records":[{"seq":7,"at":4,"way":"in"}],"dropped":{"messages":6,"until":3,"lost":1,"lostSince":1,"lostUntil":2}}`),
		func(request message.Message, event func(message.Message)) message.Message {
			event(request.Event("Message.Recorded", json.RawMessage(`{"seq":9,"at":6,"principal":"ci","wire":"ws","claim":true,"message":`+first+`}`)))
			return request.Reply(json.RawMessage(`{"next":10,"messages":1}`))
		})
	out, notes, status := runWith(t, s, "log", "--json", "--follow", "--kind", "command", "--since", "1h", "--code", "404")
	if out != numbered(first, `{"seq":7,"at":4,"way":"in"}`)+numbered(second, `{"seq":8,"at":5,"way":"out","principal":"ci","principalId":"01","wire":"unix"}`)+
		numbered(first, `{"seq":9,"at":6,"principal":"ci","wire":"ws","claim":true}`) || status != 0 {
		t.Errorf("got %d %s", status, out)
	}
	if !strings.Contains(notes, "the journal has dropped its oldest 6 messages, recorded until ") || !strings.Contains(notes, "1 message from ") {
		t.Errorf("noted %s", notes)
	}
	const filter = `{"kind":"command","code":404,"since":"1h",`
	want := []string{
		`query Message.List ` + filter + `"limit":50,"order":"desc","records":true}`,
		`query Message.List ` + filter + `"cursor":"d8","limit":49,"order":"desc","records":true}`,
		`query Message.Watch ` + filter + `"after":8}`,
	}
	if strings.Join(s.asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n%s", strings.Join(s.asked, "\n"))
	}
}

func TestLogOfEverything(t *testing.T) {
	s := &scripted{t: t}
	s.answers = append(s.answers,
		reply(`{"messages":[`+second+`],"records":[{"seq":8,"at":5,"way":"out"}],"cursor":"d8"}`),
		reply(`{"messages":[`+first+`],"records":[{"seq":7,"at":4,"way":"in"}],"cursor":"a7"}`),
		reply(`{"messages":[`+second+`,`+first+`],"records":[{"seq":8,"at":5,"way":"out"},{"seq":9,"at":5,"way":"in"}],"cursor":"a9"}`)) // the last came later
	out, _, status := runWith(t, s, "log", "-n", "0", "--json")
	if out != numbered(first, `{"seq":7,"at":4,"way":"in"}`)+numbered(second, `{"seq":8,"at":5,"way":"out"}`) || status != 0 || s.asked[2] != `query Message.List {"cursor":"a7","limit":500,"records":true}` {
		t.Errorf("got %d %s after %s", status, out, s.asked)
	}
}

func TestCommandsLeaveWithTheRightStatus(t *testing.T) {
	for _, c := range []struct {
		args   string
		answer func(message.Message, func(message.Message)) message.Message
		status int
		out    string
		notes  string
	}{
		{"log", reply(`{"messages":[]}`), 0, "", "kernos: no recorded message matches; the daemon records all messages, kernos pipe --inline only with --journal\n"},
		{"log", fail(422, "type: wrong"), 5, "", "type: wrong\n"},
		{"log", fail(404, "No handler for Message.List"), 1, "", "No handler for Message.List\n"},
		{"log", fail(503, "held by \x1b[31manother"), 1, "", "held by  [31manother\n"},
		{"log", reply(`1`), 1, "", "the answer of Message.List can't be read: it is a number, and an object is expected\n"},
		{"log -n -1", nil, 2, "", "-n must be from 1 to 10000, or 0 for all; got -1\n"},
		{"log kind:eror x", fail(422, "kind: wrong"), 5, "", "kind: wrong\n"},
		{"graph w", reply(`"graph TD\n"`), 0, "graph TD\n", ""},
		{"graph w --format tree", reply(`"▶ Test.Run  a\u001b\n└─ ✓ reply\n"`), 0, "▶ Test.Run  a␛\n└─ ✓ reply\n", ""},
		{"graph w --format json", reply(`{"nodes":[]}`), 0, "{\"nodes\":[]}\n", ""},
		{"graph w --format png", nil, 5, "", "invalid argument \"png\" for \"--format\" flag: --output can be tree, mermaid, dot, json; got \"png\"\n"},
		{"graph", nil, 5, "", "name the workflow: kernos graph CORRELATION, or the id of one of its messages; kernos log lists them\n"},
		{"graph w", fail(404, "Workflow not found: w"), 1, "", "Workflow not found: w\n"},
		{"search echo", reply(`{"messages":[],"scores":[],"total":0,"behind":3}`), 0, "", "kernos: the latest 3 messages are not indexed yet and were not searched\nkernos: no recorded message matches; the daemon records all messages, kernos pipe --inline only with --journal\n"},
		{"search echo --json", reply(`{"messages":[` + first + `],"scores":[1.5],"total":2}`), 0, first + "\n", "kernos: 1 of 2 messages that match; -n shows more\n"},
		{"search", nil, 5, "", "say what to look for: kernos search WORDS…\n"},
		{"search a -n 0", nil, 2, "", "-n must be from 1 to 1000, got 0\n"},
		{"replay w --queries", nil, 2, "", "--queries needs --execute: nothing is run without it\n"},
		{"replay w --execute", reply(`{"correlation":"r","commands":1,"same":1,"different":[],"skipped":[]}`), 0, "Ran 1 command again as r: 1 the same, 0 different, 0 skipped\n", ""},
		{"replay w --execute --json", reply(`{"commands":1,"different":[{}]}`), 1, `{"commands":1,"different":[{}]}` + "\n", "\n"},
		{"replay w --execute", reply(`{"correlation":"r","commands":2,"queries":1,"same":1,"more":true,
			"different":[{"id":"a","type":"Echo","was":{"kind":"none"},"now":{"kind":"error","data":{"code":404,"message":"Gone"}}}],
			"skipped":[{"id":"b","type":"Echo","why":"It is secret"}]}`), 1,
			"Ran 2 commands and 1 query again as r: 1 the same, 1 different, 1 skipped\n≠ Echo  a\n  was  no answer\n  now  ✗ 404 Gone\n- Echo  b  skipped: It is secret\n",
			"kernos: the workflow continues; -n runs more\n\n"},
		{"watch -n 1 --from 5 --json", func(request message.Message, event func(message.Message)) message.Message {
			event(request.Event("Message.Recorded", json.RawMessage(`{"seq":5,"at":6,"message":`+second+`}`)))
			return request.Reply(json.RawMessage(`{"next":6,"messages":1}`))
		}, 0, numbered(second, `{"seq":5,"at":6}`), ""},
		{"replay w --json", func(request message.Message, event func(message.Message)) message.Message {
			event(request.Event("Message.Replayed", json.RawMessage(`{"seq":5,"at":6,"message":`+second+`}`)))
			return request.Reply(json.RawMessage(`{"messages":1,"more":true}`))
		}, 0, numbered(second, `{"seq":5,"at":6}`), "kernos: the workflow continues; -n shows more\n"},
	} {
		s := &scripted{t: t}
		if c.answer != nil {
			s.answers = append(s.answers, c.answer)
		}
		out, notes, status := runWith(t, s, strings.Fields(c.args)...)
		if out != c.out || notes != c.notes || status != c.status {
			t.Errorf("%s: got %d\n%q\n%q", c.args, status, out, notes)
		}
	}
}

func TestSearchShowsScores(t *testing.T) {
	s := &scripted{t: t}
	s.answers = append(s.answers, reply(`{"messages":[`+second+`],"scores":[12.345],"records":[{"seq":1,"at":0,"way":"in"}],"total":1}`))
	out, _, _ := runWith(t, s, "search", "two", "words", "--type", "Echo")
	if !strings.HasPrefix(out, " 12.35  ") && !strings.HasPrefix(out, " 12.34  ") || !strings.HasSuffix(out, `✓ Echo            b             {"echo":"a"}`+"\n") {
		t.Errorf("got %q", out)
	}
	if s.asked[0] != `query Message.Search {"query":"two words","type":"Echo","limit":20,"records":true}` {
		t.Errorf("asked %s", s.asked)
	}
}

func TestSearchShowsWhy(t *testing.T) {
	s := &scripted{t: t}
	s.answers = append(s.answers, reply(`{"messages":[`+strings.Repeat(second+",", 3)+second+`],"scores":[4,3,2,1],"why":[{"words":["bread","milk"],"near":0.714},{"near":0.4},{"words":["a\u001b[2Jword","that","isn't","short"]},{}],"records":[{"at":0},{"at":0},{"at":0},{"at":0}],"total":4}`))
	out, _, _ := runWith(t, s, "search", "two", "words")
	var got []string
	for line := range strings.Lines(out) {
		head, _, _ := strings.Cut(line, "1970-")
		got = append(got, head)
	}
	want := []string{
		"  4.00  ~0.71 bread milk        ",
		"  3.00  ~0.40                   ",
		"  2.00        a␛[2Jword that …  ",
		"  1.00                          ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestASignalEndsAWatch(t *testing.T) {
	interrupted := make(chan struct{})
	call := func(ctx context.Context, _ message.Message, _ func(json.RawMessage) error) (json.RawMessage, error) {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return nil, err
		}
		if err := self.Signal(os.Interrupt); err != nil {
			return nil, err
		}
		<-ctx.Done()
		close(interrupted)
		return nil, &message.Error{Code: 499, Message: "Cancelled before it was done"}
	}
	c := watchCommand()
	c.SetArgs([]string{}) // nil would mean those of the test
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(line.WithKernel(t.Context(), call))
	select {
	case <-interrupted:
	default:
		t.Error("the watch ended before the signal")
	}
	if ended, ok := errors.AsType[*exit.Error](err); !ok || ended.Status != exit.Interrupted || ended.Error() != "" {
		t.Errorf("got %v", err)
	}
}
