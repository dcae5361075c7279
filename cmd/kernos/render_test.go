package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/message"
)

// testScreen is a screen of this width; 0 is none.
func testScreen(width int, colour bool) (*terminal.Screen, *bytes.Buffer, *bytes.Buffer) {
	out, notes := new(bytes.Buffer), new(bytes.Buffer)
	return &terminal.Screen{Out: out, Err: notes, Width: width, Colour: colour, Now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}, out, notes
}

// shownAt makes a message that is shown.
func shownAt(at time.Time, line string) *shown {
	m := &shown{At: at.UnixMilli(), Message: json.RawMessage(line)}
	m.read()
	return m
}

func TestRows(t *testing.T) {
	today := time.Date(2026, 1, 31, 9, 5, 7, 89e6, time.UTC)
	before := today.AddDate(0, 0, -1)
	const set = `{"kind":"command","type":"Memory.Set","data":{"key":"/a","value":"` + "漢字漢字漢字漢字漢字漢字" + `"},"metadata":{"id":"01JAXV5Y2Z4B8Q0R6T7W9E3F1G","timestamp":1}}`
	const failed = `{"kind":"error","type":"Memory.Get","data":{"code":404,"message":"Key not found: /none"},"metadata":{"id":"r","timestamp":1}}`
	const hostile = `{"kind":"event","type":"Test.Ran","data":"` + "\u202eevil\u0085\x7f" + `","metadata":{"id":"` + "\u202e" + `","timestamp":1}}`
	for _, c := range []struct {
		name   string
		at     time.Time
		line   string
		width  int
		colour bool
		words  []string
		want   string
	}{
		{"no terminal", today, set, 0, false, nil, `2026-01-31 09:05:07.089  ▶ Memory.Set      01JAX…9E3F1G  {"key":"/a","value":"漢字漢字漢字漢字漢字漢字"}`},
		{"today", today, set, 80, false, nil, `09:05:07.089  ▶ Memory.Set      01JAX…9E3F1G  {"key":"/a","value":"漢字漢字漢字…`},
		{"another day", before, set, 80, false, nil, `2026-01-30 09:05:07.089  ▶ Memory.Set      01JAX…9E3F1G  {"key":"/a","value":"…`},
		{"narrow", today, set, 40, false, nil, `09:05:07.089  ▶ Memory.Set      01JAX…9E3F1G  {"key":…`},
		{"colour", today, failed, 80, true, nil, "\x1b[2m09:05:07.089  \x1b[0m\x1b[31m✗\x1b[0m Memory.Get      \x1b[2mr           \x1b[0m  \x1b[31m404 Key not found: /none\x1b[0m"},
		{"words", today, failed, 80, true, []string{"key", "none"}, "\x1b[2m09:05:07.089  \x1b[0m\x1b[31m✗\x1b[0m Memory.Get      \x1b[2mr           \x1b[0m  \x1b[31m404 \x1b[0m\x1b[1;33mKey\x1b[0m\x1b[31m not found: /\x1b[0m\x1b[1;33mnone\x1b[0m"},
		{"hostile", today, hostile, 0, false, nil, `2026-01-31 09:05:07.089  ◆ Test.Ran        ⟨U+202e⟩      "⟨U+202e⟩evil⟨U+0085⟩␡"`},
		{"no message", today, "{\x1b", 0, false, nil, `2026-01-31 09:05:07.089  ·                               {␛`},
	} {
		s, out, _ := testScreen(c.width, c.colour)
		if err := row(s, shownAt(c.at, c.line), "", minTypeWidth, c.words); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(out.String(), "\n"); got != c.want {
			t.Errorf("%s: got\n%q, want\n%q", c.name, got, c.want)
		}
	}
}

func TestTheFirstWordFoundIsShown(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{around("a very long text in which the needle is far behind what can be seen", []string{"needle"}, 24), "…h the needle is far be…"},
		{around("needle first and then a lot of other text", []string{"needle"}, 12), "needle firs…"},
		{strings.Join(searchWords("Key/NOT-found  «Ä»"), "|"), "key|not|found|ä"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for _, text := range []string{"a漢b字c", strings.Repeat("x", 100)} {
		for most := 2; most < 14; most++ {
			if got := around(text, []string{"x"}, most); terminal.Columns(got) > most {
				t.Errorf("around(%q, %d) = %q", text, most, got)
			}
		}
	}
}

func TestTreeLines(t *testing.T) {
	s, _, _ := testScreen(40, true)
	for line, want := range map[string]string{
		"▶ Test.Run  a":            "\x1b[34m▶\x1b[0m Test.Run  a",
		"│  └─ ✗ error 404 No":     "\x1b[2m│  └─ \x1b[0m\x1b[31m✗ error 404 No\x1b[0m",
		"⋯14    └─ ✓ reply":        "\x1b[2m⋯14    └─ \x1b[0m\x1b[32m✓\x1b[0m reply",
		"◌ not in the journal  a":  "\x1b[2m◌ not in the journal  a\x1b[0m",
		"… the workflow goes on":   "\x1b[2m… the workflow goes on\x1b[0m",
		strings.Repeat("│  ", 100): strings.Repeat("│  ", 13) + "…",
	} {
		if got := treeLine(s, line); got != want && got != s.Paint(terminal.Faint, want) {
			t.Errorf("%q: got %q", line, got)
		}
	}
}

func FuzzRow(f *testing.F) {
	f.Add(`{"kind":"error","type":"A.B","data":{"code":404,"message":"x"},"metadata":{"id":"a"}}`, "x", uint8(80))
	f.Add("{\"kind\":\"event\",\"type\":\"A.B\",\"data\":\"\u202e\x7f漢\",\"metadata\":{\"id\":\"\u0085\"}}", "漢 b", uint8(40))
	f.Fuzz(func(t *testing.T, line, query string, width uint8) {
		s, out, _ := testScreen(int(width), false)
		if s.Width > 0 {
			s.Width = max(s.Width, 80)
		}
		m := shownAt(s.Now, line)
		if err := row(s, m, "", typeWidth([]shown{*m}), searchWords(query)); err != nil {
			t.Fatal(err)
		}
		text := strings.TrimSuffix(out.String(), "\n")
		if s.Width > 0 && terminal.Columns(text) > s.Width {
			t.Errorf("%d columns in %d: %q", terminal.Columns(text), s.Width, text)
		}
		for _, r := range text {
			if r < ' ' || r >= 0x7F && r < 0xA0 || r == 0x202E {
				t.Errorf("U+%04X in %q", r, text)
			}
		}
		s.Colour = true
		out.Reset()
		if err := row(s, m, "", minTypeWidth, searchWords(query)); err != nil {
			t.Fatal(err)
		}
	})
}

// script answers requests in order, and notes them.
type script struct {
	t       *testing.T
	asked   []string
	answers []func(request message.Message, event func(message.Message)) message.Message
	closed  int
}

func (s *script) open(context.Context) (caller, func() error, error) {
	call := func(_ context.Context, request message.Message, event func(message.Message)) (message.Message, error) {
		s.asked = append(s.asked, fmt.Sprintf("%s %s %s", request.Kind, request.Type, request.Data))
		if len(s.answers) == 0 {
			s.t.Fatalf("asked for more: %s", s.asked)
		}
		answer := s.answers[0]
		s.answers = s.answers[1:]
		return answer(request, event), nil
	}
	return call, func() error { s.closed++; return nil }, nil
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
func runWith(t *testing.T, s *script, args ...string) (out, notes string, status int) {
	t.Helper()
	root := &cobra.Command{Use: "kernos", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(historyCommands(s.open, s.open)...)
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		status = exit.Usage
		if ended, ok := errors.AsType[*exit.Error](err); ok {
			status = ended.Status
		}
		fmt.Fprintln(&e, err)
	}
	return o.String(), e.String(), status
}

const (
	first  = `{"kind":"command","type":"Echo","data":{"message":"a"},"metadata":{"id":"a","timestamp":1}}`
	second = `{"kind":"reply","type":"Echo","data":{"echo":"a"},"metadata":{"id":"b","timestamp":1,"causation":"a"}}`
)

func TestLogPagesAndFollows(t *testing.T) {
	s := &script{t: t}
	s.answers = append(s.answers,
		reply(`{"messages":[`+second+`],"records":[{"seq":8,"at":5,"way":"out"}],"cursor":"d8"}`),
		reply(`{"messages":[`+first+`],"records":[{"seq":7,"at":4,"way":"in"}],"dropped":{"messages":6,"until":3,"lost":1,"lostSince":1,"lostUntil":2}}`),
		func(request message.Message, event func(message.Message)) message.Message {
			event(request.Event("Message.Recorded", json.RawMessage(`{"seq":9,"at":6,"message":`+first+`}`)))
			event(request.Event("Syscall.Progressed", json.RawMessage(`{}`)))
			return request.Reply(json.RawMessage(`{"next":10,"messages":1}`))
		})
	out, notes, status := runWith(t, s, "log", "--json", "--follow", "--kind", "command", "--since", "1h", "--code", "404")
	if out != first+"\n"+second+"\n"+first+"\n" || status != 0 {
		t.Errorf("got %d %s", status, out)
	}
	if !strings.Contains(notes, "the journal has dropped its oldest 6 messages, recorded until ") || !strings.Contains(notes, "1 message from ") {
		t.Errorf("noted %s", notes)
	}
	const filter = `{"kind":"command","code":404,"since":"1h",`
	want := []string{
		`query Message.List ` + filter + `"limit":51,"order":"desc","records":true}`,
		`query Message.List ` + filter + `"cursor":"d8","limit":50,"order":"desc","records":true}`,
		`query Message.Watch ` + filter + `"after":8}`,
	}
	if strings.Join(s.asked, "\n") != strings.Join(want, "\n") || s.closed != 1 {
		t.Errorf("asked\n%s", strings.Join(s.asked, "\n"))
	}
}

func TestLogOfEverything(t *testing.T) {
	s := &script{t: t}
	s.answers = append(s.answers,
		reply(`{"messages":[`+second+`],"records":[{"seq":8,"at":5,"way":"out"}],"cursor":"d8"}`),
		reply(`{"messages":[`+first+`],"records":[{"seq":7,"at":4,"way":"in"}],"cursor":"a7"}`),
		reply(`{"messages":[`+second+`,`+first+`],"records":[{"seq":8,"at":5,"way":"out"},{"seq":9,"at":5,"way":"in"}],"cursor":"a9"}`)) // the last came later
	out, _, status := runWith(t, s, "log", "-n", "0", "--json")
	if out != first+"\n"+second+"\n" || status != 0 || s.asked[2] != `query Message.List {"cursor":"a7","limit":500,"records":true}` {
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
		{"log", reply(`{"messages":[]}`), 0, "", "kernos: no message in the journal matches; the daemon records all messages, kernos pipe --inline with --journal\n"},
		{"log", fail(422, "type: wrong"), 5, "", "type: wrong\n"},
		{"log", fail(404, "No handler for Message.List"), 1, "", "No handler for Message.List\n"},
		{"log", fail(503, "held by \x1b[31manother"), 1, "", "held by  [31manother\n"},
		{"log", reply(`1`), 1, "", "the answer of Message.List can't be read: json: cannot unmarshal number into Go value of type main.listReply\n"},
		{"log -n -1", nil, 2, "", "-n must be from 1 to 10000, or 0 for all; got -1\n"},
		{"log x", nil, 2, "", "kernos log takes no arguments, got \"x\"; see kernos log --help\n"},
		{"graph w", reply(`"graph TD\n"`), 0, "graph TD\n", ""},
		{"graph w --format tree", reply(`"▶ Test.Run  a\u001b\n└─ ✓ reply\n"`), 0, "▶ Test.Run  a␛\n└─ ✓ reply\n", ""},
		{"graph w --format json", reply(`{"nodes":[]}`), 0, "{\"nodes\":[]}\n", ""},
		{"graph w --format png", nil, 2, "", "--format must be one of tree, mermaid, dot, json; got \"png\"\n"},
		{"graph", nil, 2, "", "say which workflow: kernos graph CORRELATION; kernos log --json shows metadata.correlation\n"},
		{"graph w", fail(404, "Workflow not found: w"), 1, "", "Workflow not found: w\n"},
		{"search echo", reply(`{"messages":[],"scores":[],"total":0,"behind":3}`), 0, "", "kernos: the latest 3 messages are not indexed yet and were not searched\nkernos: no message in the journal matches; the daemon records all messages, kernos pipe --inline with --journal\n"},
		{"search echo --json", reply(`{"messages":[` + first + `],"scores":[1.5],"total":2}`), 0, first + "\n", "kernos: 1 of 2 messages that match; -n shows more\n"},
		{"search", nil, 2, "", "say what to look for: kernos search WORDS…\n"},
		{"search a -n 0", nil, 2, "", "-n must be from 1 to 1000, got 0\n"},
		{"replay w --queries", nil, 2, "", "--queries needs --execute: nothing is run without it\n"},
		{"replay w --execute", reply(`{"correlation":"r","commands":1,"same":1,"different":[],"skipped":[]}`), 0, "Ran 1 command again as r: 1 the same, 0 different, 0 skipped\n", ""},
		{"replay w --execute --json", reply(`{"commands":1,"different":[{}]}`), 1, `{"commands":1,"different":[{}]}` + "\n", "\n"},
		{"replay w --execute", reply(`{"correlation":"r","commands":2,"queries":1,"same":1,"more":true,
			"different":[{"id":"a","type":"Echo","was":{"kind":"none"},"now":{"kind":"error","data":{"code":404,"message":"Gone"}}}],
			"skipped":[{"id":"b","type":"Echo","why":"It is secret"}]}`), 1,
			"Ran 2 commands and 1 query again as r: 1 the same, 1 different, 1 skipped\n≠ Echo  a\n  was  no answer\n  now  ✗ 404 Gone\n- Echo  b  skipped: It is secret\n",
			"kernos: the workflow goes on; -n runs more\n\n"},
		{"watch -n 1 --from 5 --json", func(request message.Message, event func(message.Message)) message.Message {
			event(request.Event("Message.Recorded", json.RawMessage(`{"seq":5,"at":6,"message":`+second+`}`)))
			return request.Reply(json.RawMessage(`{"next":6,"messages":1}`))
		}, 0, second + "\n", ""},
		{"replay w --json", func(request message.Message, event func(message.Message)) message.Message {
			event(request.Event("Message.Replayed", json.RawMessage(`{"seq":5,"at":6,"message":`+second+`}`)))
			return request.Reply(json.RawMessage(`{"messages":1,"more":true}`))
		}, 0, second + "\n", "kernos: the workflow goes on; -n shows more\n"},
	} {
		s := &script{t: t}
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
	s := &script{t: t}
	s.answers = append(s.answers, reply(`{"messages":[`+second+`],"scores":[12.345],"records":[{"seq":1,"at":0,"way":"in"}],"total":1}`))
	out, _, _ := runWith(t, s, "search", "two", "words", "--type", "Echo")
	if !strings.HasPrefix(out, " 12.35  ") && !strings.HasPrefix(out, " 12.34  ") || !strings.HasSuffix(out, `✓ Echo            b             {"echo":"a"}`+"\n") {
		t.Errorf("got %q", out)
	}
	if s.asked[0] != `query Message.Search {"query":"two words","type":"Echo","limit":20,"records":true}` {
		t.Errorf("asked %s", s.asked)
	}
}

// A reader that has gone ends a watch.
func TestAWatchWhoseReaderHasGoneEnds(t *testing.T) {
	s, _, _ := testScreen(0, false)
	s.Out = broken{}
	l := listing{screen: s, call: func(ctx context.Context, request message.Message, event func(message.Message)) (message.Message, error) {
		for ctx.Err() == nil {
			event(request.Event("Message.Recorded", json.RawMessage(`{"seq":5,"at":6,"message":`+second+`}`)))
		}
		return request.Fail(&message.Error{Code: 499, Message: "Cancelled"}), nil
	}}
	if err := l.watch(t.Context(), watchRequest{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestASignalEndsAWatch(t *testing.T) {
	s := &script{t: t}
	interrupted := make(chan struct{})
	open := func(ctx context.Context) (caller, func() error, error) {
		_, done, err := s.open(ctx)
		return func(ctx context.Context, request message.Message, _ func(message.Message)) (message.Message, error) {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return message.Message{}, err
			}
			if err := self.Signal(os.Interrupt); err != nil {
				return message.Message{}, err
			}
			<-ctx.Done()
			close(interrupted)
			return request.Fail(&message.Error{Code: 499, Message: "Cancelled before it was done"}), nil
		}, done, err
	}
	c := watchCommand(open)
	c.SetArgs(nil)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	<-interrupted
	if ended, ok := errors.AsType[*exit.Error](err); !ok || ended.Status != exit.Interrupted || ended.Error() != "" || s.closed != 1 {
		t.Errorf("got %v", err)
	}
}
