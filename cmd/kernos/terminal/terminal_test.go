package terminal

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"kernos/internal/jsonvalue"
)

func TestTextsFitTheirColumns(t *testing.T) {
	for _, text := range []string{"", "a", "abcdefghij", "漢字漢字漢字", "e\u0301e\u0301e\u0301e\u0301", "a漢b字c", "😀😀😀", strings.Repeat("x", 100)} {
		for most := 2; most < 14; most++ {
			for name, got := range map[string]string{"clip": Clip(text, most), "middle": ClipMiddle(text, most)} {
				if Columns(got) > most {
					t.Errorf("%s(%q, %d) = %q has %d columns", name, text, most, got, Columns(got))
				}
				if Columns(text) <= most && got != text {
					t.Errorf("%s(%q, %d) = %q though it fits", name, text, most, got)
				}
			}
			if got := Pad(text, most); Columns(got) != most {
				t.Errorf("pad(%q, %d) = %q has %d columns", text, most, got, Columns(got))
			}
		}
	}
	for _, c := range []struct{ got, want string }{
		{Clip("abcdef", 4), "abc…"},
		{Clip("漢字漢", 5), "漢字…"},
		{Clip("漢字漢", 4), "漢…"},
		{ClipMiddle("abcdefghij", 5), "ab…ij"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// An explanation is never cut: it is there to be read.
func TestExplanationsAreBrokenIntoLines(t *testing.T) {
	rows := [][]string{{"  --name STRING", "one two three four five"}, {"  --n", ""}}
	wide := [][]string{{"  --kind " + strings.Repeat("x", 30), "one two three four five six seven"}}
	for _, c := range []struct {
		rows  [][]string
		width int
		want  string
	}{
		{rows, 38, "  --name STRING  one two three four\n                 five\n  --n\n"},
		{rows, 0, "  --name STRING  one two three four five\n  --n\n"},
		{wide, 40, "  --kind " + strings.Repeat("x", 30) + "\n      one two three four five six seven\n"},
	} {
		var b strings.Builder
		if err := (&Screen{Out: &b, Width: c.width}).Explained(c.rows); err != nil || b.String() != c.want {
			t.Errorf("with %d columns: got\n%s, want\n%s", c.width, b.String(), c.want)
		}
	}
}

// Cells may come from another server, which must not move the cursor of this terminal, or begin a line.
func TestATerminalObeysNoCell(t *testing.T) {
	rows := [][]string{{"a", "\x1b[2Jgone"}, {"b\nc", "d"}}
	for _, width := range []int{0, 40} {
		var b strings.Builder
		s := &Screen{Out: &b, Width: width}
		if err := errors.Join(s.Table([]string{"\x1b[1m"}, rows), s.Explained(rows)); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); strings.ContainsRune(got, '\x1b') || strings.Count(got, "\n") != 5 || !strings.Contains(got, "[2Jgone") {
			t.Errorf("with %d columns: got %q", width, got)
		}
	}
}

func TestAnExplanationOfSeveralLinesIsWrapped(t *testing.T) {
	var b strings.Builder
	s := &Screen{Out: &b, Width: 40}
	if err := s.Explained([][]string{{"count", "Counts words.\n\nArgs:\n    text:\twhat to count"}}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != "count  Counts words. Args: text: what to\n       count\n" {
		t.Errorf("got %q", got)
	}
}

func TestBarLine(t *testing.T) {
	half := 0.5
	if got := barLine("digging", &half, 0, 80); got != "["+strings.Repeat("█", 12)+strings.Repeat("░", 12)+"]  50% digging" {
		t.Errorf("got %q", got)
	}
	if got := barLine("digging\x1b[2J", nil, 0, 10); Columns(got) != 10 || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
	over := 7.0
	if got := barLine("x", &over, 0, 80); !strings.Contains(got, "100%") {
		t.Errorf("got %q", got)
	}
}

func TestTheTimeThatIsLeft(t *testing.T) {
	now := time.Unix(0, 0)
	b := &Bar{out: io.Discard, width: 80, now: func() time.Time { return now }}
	for _, c := range []struct {
		after    time.Duration
		fraction float64
		want     time.Duration
	}{
		{0, 0, 0},   // nothing is done
		{0, 0.2, 0}, // the first that is known
		{10 * time.Second, 0.4, 30 * time.Second},
		{0, 0.4, 30 * time.Second},
		{20 * time.Second, 0.8, 10 * time.Second},
		{0, 1, 0},
		{0, 0.1, 0}, // another part begins
		{9 * time.Second, 0.4, 18 * time.Second},
	} {
		now = now.Add(c.after)
		if got := b.left(&c.fraction); got != c.want {
			t.Errorf("at %v, %v: %v is left, want %v", now.Unix(), c.fraction, got, c.want)
		}
	}
	if got := b.left(nil); got != 0 {
		t.Errorf("%v is left of what isn't known", got)
	}
	half := 0.5
	if got := barLine("digging", &half, 90*time.Second, 80); !strings.HasSuffix(got, "50% 1m30s left  digging") {
		t.Errorf("got %q", got)
	}
}

func TestATextInItsPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		width int
		want  string
	}{
		{"a terminal", 10, "\ra\x1b[K\n\rb\x1b[K\n\x1b[J\x1b[2A\r123456789…\x1b[K\n\x1b[J\x1b[1A\ra\x1b[K\n\rb\x1b[K\n\x1b[J"},
		{"a file", 0, "a\nb\n1234567890123\na\nb\n"},
	} {
		var out strings.Builder
		p := NewRegion(&Screen{Out: &out, Width: c.width})
		for _, text := range []string{"a\nb\n", "a\nb\n", "1234567890123\n", "a\nb\n"} {
			if err := p.Show(text); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != c.want {
			t.Errorf("%s: %q, want %q", c.name, out.String(), c.want)
		}
	}
}

// What gives a text its colour takes no room.
func TestAColouredTextInItsPlace(t *testing.T) {
	var out strings.Builder
	p := NewRegion(&Screen{Out: &out, Width: 4})
	if err := p.Show("\x1b[31mred\x1b[39m!\n\x1b[31mcrimson\x1b[39m\n"); err != nil {
		t.Fatal(err)
	}
	if want := "\r\x1b[31mred\x1b[39m!\x1b[K\n\r\x1b[31mcri…\x1b[39m\x1b[K\n\x1b[J"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// The notes of an answer that is repeated are part of each round on a terminal; elsewhere each comes once.
func TestNotesOfRounds(t *testing.T) {
	for width, want := range map[int]string{
		80: "kernos: waiting: 1\nNAME\nkernos: 2 more|kernos: waiting: 1\nNAME\nkernos: 2 more| notes:",
		0:  "NAME|NAME| notes:kernos: waiting: 1\nkernos: 2 more\n",
	} {
		var notes strings.Builder
		s := &Screen{Err: &notes, Width: width}
		got := ""
		for range 2 {
			var round strings.Builder
			s.Repeat(&round)
			facts := jsonvalue.Members(json.RawMessage(`{"waiting":1,"cursor":"c"}`))
			if err := s.list(facts, func(string) string { return "2 more" }, func() error { return s.Line("NAME") }); err != nil {
				t.Fatal(err)
			}
			got += strings.TrimSuffix(round.String(), "\n") + "|"
		}
		if got += " notes:" + notes.String(); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}
