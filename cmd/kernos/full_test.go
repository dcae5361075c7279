package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/cmd/kernos/record"
	"kernos/internal/exit"
)

// unfitText begins the error of an answer that fits neither into a line nor into a blob.
const unfitText = "The answer does not fit into a line"

// noBlobs makes a home take no blobs, as a disk does that is full: there is a file in the
// place of their directory.
func (h *house) noBlobs() {
	h.t.Helper()
	origins, err := filepath.Glob(filepath.Join(h.home, "origins", "*"))
	if err != nil || len(origins) != 1 {
		h.t.Fatalf("there are %q, %v", origins, err)
	}
	blobs := filepath.Join(origins[0], "blobs")
	if err := os.RemoveAll(blobs); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(blobs, nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// What is recorded can be read while nothing can be written.
func TestTheJournalIsReadWhereNoBlobCanBeKept(t *testing.T) {
	h := newHouse(t)
	h.serve()
	var requests strings.Builder
	const n = 150
	for i := range n {
		fmt.Fprintf(&requests, `{"kind":"command","type":"Echo","data":{"message":"word %d %s"},"metadata":{"id":"e%d","timestamp":1,"correlation":"W"}}`+"\n", i, strings.Repeat("x", 300), i)
	}
	if out, notes, status := h.run(requests.String(), "pipe"); status != 0 || strings.Count(out, "\n") != n {
		t.Fatalf("got %d %s", status, notes)
	}
	graph := func(format string) string {
		t.Helper()
		out, notes, status := h.run("", "graph", "W", "--format", format)
		if status != 0 || notes != "" || !strings.Contains(out, "e149") {
			t.Errorf("graph as %s: got %d %s", format, status, notes)
		}
		return out
	}
	drawn := map[string]string{}
	for _, format := range record.Formats {
		drawn[format] = graph(format)
	}
	h.noBlobs()
	list := `{"kind":"query","type":"Message.List","data":{"limit":300},"metadata":{"id":"l","timestamp":1}}`
	if out, _, status := h.run(list, "pipe"); status != exit.Failure || !strings.Contains(out, unfitText) {
		t.Fatalf("a long answer can be given: %d %.200s", status, out)
	}
	for _, c := range []struct {
		args  []string
		lines int
	}{
		{[]string{"log", "--correlation", "W", "--json"}, 50},
		{[]string{"log", "--correlation", "W", "-n", "0", "--json"}, 2 * n},
		{[]string{"search", "word", "--kind", "command", "--type", "Echo", "-n", "120", "--json"}, 120},
	} {
		out, notes, status := h.run("", c.args...)
		seen := map[string]bool{}
		for line := range strings.Lines(out) {
			seen[line] = true
		}
		if status != 0 || len(seen) != c.lines || strings.Count(out, "\n") != c.lines {
			t.Errorf("%s: got %d, %d lines: %s", c.args, status, len(seen), notes)
		}
	}
	for _, format := range record.Formats {
		if again := graph(format); again != drawn[format] {
			t.Errorf("the graph as %s has become another one, of %d bytes instead of %d", format, len(again), len(drawn[format]))
		}
	}
}

// What is before a message that no answer has room for is shown.
func TestALogEndsBeforeAMessageThatIsTooLong(t *testing.T) {
	s := &scripted{t: t}
	s.answers = append(s.answers, fail(413, unfitText),
		reply(`{"messages":[`+second+`],"records":[{"seq":8,"at":5,"way":"out"}],"cursor":"d8"}`),
		fail(413, unfitText))
	out, notes, status := runWith(t, s, "log", "--json", "-n", "2")
	if out != numbered(second, `{"seq":8,"at":5,"way":"out"}`) || status != exit.Failure || !strings.Contains(notes, unfitText) {
		t.Errorf("got %d %s%s", status, out, notes)
	}
	if want := `query Message.List {"cursor":"d8","limit":1,"order":"desc","records":true}`; s.asked[len(s.asked)-1] != want {
		t.Errorf("asked\n%s", strings.Join(s.asked, "\n"))
	}
}
