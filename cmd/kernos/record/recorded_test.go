package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

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
	m := &shown{record: record{At: at.UnixMilli()}, Message: json.RawMessage(line)}
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
		words  *regexp.Regexp
		want   string
	}{
		{"no terminal", today, set, 0, false, nil, `2026-01-31 09:05:07.089  ▶ Memory.Set      01JAX…9E3F1G  {"key":"/a","value":"漢字漢字漢字漢字漢字漢字"}`},
		{"today", today, set, 80, false, nil, `09:05:07.089  ▶ Memory.Set      01JAX…9E3F1G  {"key":"/a","value":"漢字漢字漢字…`},
		{"another day", before, set, 80, false, nil, "2026-01-30 09:05:07.089  ▶ Memory.Set  01JAX…9E3F1G\n    {\"key\":\"/a\",\"value\":\"漢字漢字漢字漢字漢字漢字\"}"},
		{"narrow", today, set, 40, false, nil, "09:05:07.089  ▶ Memory.Set  01JAX…9E3F1G\n    {\"key\":\"/a\",\"value\":\"漢字漢字漢字漢…"},
		{"colour", today, failed, 80, true, nil, "\x1b[2m09:05:07.089  \x1b[0m\x1b[31m✗\x1b[0m Memory.Get      \x1b[2mr           \x1b[0m  \x1b[31m404 Key not found: /none\x1b[0m"},
		{"words", today, failed, 80, true, searchWords("key none"), "\x1b[2m09:05:07.089  \x1b[0m\x1b[31m✗\x1b[0m Memory.Get      \x1b[2mr           \x1b[0m  \x1b[31m404 \x1b[0m\x1b[1;33mKey\x1b[0m\x1b[31m not found: /\x1b[0m\x1b[1;33mnone\x1b[0m"},
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
		{around("a very long text in which the needle is far behind what can be seen", searchWords("needle"), 24), "…h the needle is far be…"},
		{around("needle first and then a lot of other text", searchWords("needle"), 12), "needle firs…"},
		{searchWords("Key/NOT-found  «Ä»").String(), "(?i)found|Key|NOT|Ä"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for _, text := range []string{"a漢b字c", strings.Repeat("x", 100)} {
		for most := 2; most < 14; most++ {
			if got := around(text, searchWords("x"), most); terminal.Columns(got) > most {
				t.Errorf("around(%q, %d) = %q", text, most, got)
			}
		}
	}
}

func TestARowNamesWhoSentIt(t *testing.T) {
	for _, c := range []struct {
		principal string
		claim     bool
		want      string
	}{
		{"owner", false, `✓ Echo            b             {"echo":"a"}`},
		{"ci\x1b[2J", false, `✓ Echo            b             ci␛[2J: {"echo":"a"}`},
		{"ci", true, `! Echo            b             ci: claimed reply: {"echo":"a"}`},
	} {
		s, out, _ := testScreen(0, false)
		m := shown{Message: json.RawMessage(recordedReply), record: record{Principal: c.principal, Claim: c.claim}}
		m.read()
		if err := row(s, &m, "", minTypeWidth, nil); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), "  "+c.want+"\n") {
			t.Errorf("got %q, want %q", out.String(), c.want)
		}
	}
}

func TestTreeLines(t *testing.T) {
	s, _, _ := testScreen(40, true)
	for line, want := range map[string]string{
		"▶ Test.Run  a":            "\x1b[34m▶\x1b[0m Test.Run  a",
		"│  └─ ✗ error 404 No":     "\x1b[2m│  └─ \x1b[0m\x1b[31m✗ error 404 No\x1b[0m",
		"⋯14    └─ ✓ reply":        "\x1b[2m⋯14    └─ \x1b[0m\x1b[32m✓\x1b[0m reply",
		"└─ ! Echo reply, claimed": "\x1b[2m└─ \x1b[0m\x1b[31m! Echo reply, claimed\x1b[0m",
		"◌ not in the journal  a":  "\x1b[2m◌ not in the journal  a\x1b[0m",
		"… the workflow continues": "\x1b[2m… the workflow continues\x1b[0m",
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
		for line := range strings.SplitSeq(text, "\n") {
			if s.Width > 0 && terminal.Columns(line) > s.Width {
				t.Errorf("%d columns in %d: %q", terminal.Columns(line), s.Width, line)
			}
		}
		for _, r := range strings.ReplaceAll(text, "\n", "") {
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

const recordedReply = `{"kind":"reply","type":"Echo","data":{"echo":"a"},"metadata":{"id":"b","timestamp":1,"causation":"a"}}`

// A reader that has gone ends a watch.
func TestAWatchWhoseReaderHasGoneEnds(t *testing.T) {
	s, _, _ := testScreen(0, false)
	s.Out = broken{}
	l := Listing{screen: s, call: func(ctx context.Context, _ message.Message, event func(json.RawMessage) error) (json.RawMessage, error) {
		for {
			if err := event(json.RawMessage(`{"seq":5,"at":6,"message":` + recordedReply + `}`)); err != nil {
				return nil, err
			}
		}
	}}
	if err := l.Watch(t.Context(), WatchRequest{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A clock without a day is that of the last 24 hours where a listing begins: after midnight, 22:00 was in the evening before.
func TestClocksOfTheLastDay(t *testing.T) {
	now := time.Date(2026, 11, 18, 1, 30, 0, 0, time.UTC)
	l := New(nil, &terminal.Screen{Now: now}, nil)
	got := l.exactly(Filter{Since: "22:00", Until: "02:00"})
	if got.Since != "2026-11-17T22:00:00Z" || got.Until != "2026-11-18T02:00:00Z" {
		t.Errorf("it is %+v", got)
	}
	got = l.exactly(Filter{Since: "22:00", Until: "23:00"})
	if got.Since != "2026-11-17T22:00:00Z" || got.Until != "2026-11-17T23:00:00Z" {
		t.Errorf("it is %+v", got)
	}
	if got := l.exactly(Filter{Since: "01:15"}); got.Since != "2026-11-18T01:15:00Z" {
		t.Errorf("it is %+v", got)
	}
}
