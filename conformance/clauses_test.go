package conformance

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// clause is one line of clauses.tsv.
type clause struct{ id, level, needs, words string }

func clauses(t *testing.T) []clause {
	t.Helper()
	text, err := os.ReadFile("clauses.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var all []clause
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			t.Fatalf("clauses.tsv, line %d: %d columns, want 4", i+1, len(f))
		}
		if i > 0 {
			all = append(all, clause{f[0], f[1], f[2], f[3]})
		}
	}
	return all
}

// TestClausesAreShown fails when a MUST or a SHOULD of something that is built has no
// conversation that is held.
func TestClausesAreShown(t *testing.T) {
	shown := make(map[string]bool)
	known := make(map[string]bool)
	for _, c := range clauses(t) {
		known[c.id] = true
	}
	for _, talk := range conversations(t) {
		for _, id := range talk.clauses {
			if !known[id] {
				t.Errorf("%s names %s, which is no clause", talk.path, id)
			}
			if talk.runs() {
				shown[id] = true
			}
		}
	}
	for _, c := range clauses(t) {
		if c.level != "MAY" && built(c.needs) && !shown[c.id] {
			t.Errorf("%s (%s) is built in %s and no conversation shows it: %s", c.id, c.level, c.needs, c.words)
		}
	}
}

var specifications = []struct{ prefix, title string }{
	{"M24", "RFC 0024, version 0.3: messages"},
	{"E24", "RFC 0024, version 0.1: the older dialect"},
	{"H20", "RFC 0020: content hydration"},
	{"RPC", "Introspective streaming RPC"},
}

// TestDocument keeps docs/CONFORMANCE.md in step with the clauses and the files.
func TestDocument(t *testing.T) {
	const path = "../docs/CONFORMANCE.md"
	want := document(clauses(t), conversations(t))
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/CONFORMANCE.md is out of date; make docs writes it")
	}
}

func document(all []clause, talks []*conversation) []byte {
	var b bytes.Buffer
	b.WriteString(`# Conformance

Each clause of the specifications in our words, and the conversations that show it.
This file is generated from [conformance/clauses.tsv](../conformance/clauses.tsv) and
the files beside it; ` + "`make docs`" + ` writes it.

- **shown**: a conversation that names the clause is held in every test run, over every wire.
- **free**: the clause allows something and demands nothing; no conversation names it.
- **open**: the folder that the clause belongs to is not built yet.

`)
	for _, spec := range specifications {
		count := map[string]int{}
		var rows []string
		for _, c := range all {
			if !strings.HasPrefix(c.id, spec.prefix) {
				continue
			}
			state, files := c.state(talks)
			count[state]++
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", c.id, c.level, escape(c.words), strings.Join(files, "<br>"), state))
		}
		fmt.Fprintf(&b, "## %s\n\n%d shown, %d free, %d open.\n\n", spec.title, count["shown"], count["free"], count["open"])
		b.WriteString("| clause | level | in our words | conversations | state |\n|---|---|---|---|---|\n")
		b.WriteString(strings.Join(rows, ""))
		b.WriteString("\n")
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

// maxFiles is how many files a row of the document names.
const maxFiles = 3

// state tells how far a clause is, and which files show it.
func (c *clause) state(talks []*conversation) (string, []string) {
	var held, waiting []string
	for _, talk := range talks {
		if !slices.Contains(talk.clauses, c.id) {
			continue
		}
		link := fmt.Sprintf("[%s](../conformance/%s)", strings.TrimSuffix(talk.path, ".txt"), talk.path)
		if talk.runs() {
			held = append(held, link)
		} else {
			waiting = append(waiting, link)
		}
	}
	switch {
	case built(c.needs) && len(held) > 0:
		return "shown", few(held)
	case built(c.needs):
		return "free", nil
	}
	return "open", few(append(held, waiting...))
}

func few(files []string) []string {
	if len(files) > maxFiles {
		return append(files[:maxFiles:maxFiles], fmt.Sprintf("and %d more", len(files)-maxFiles))
	}
	return files
}

func escape(s string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", ">", "&gt;").Replace(s)
}

// TestAMissingConversationIsNoticed breaks the rule of TestClausesAreShown on purpose.
func TestAMissingConversationIsNoticed(t *testing.T) {
	c := clause{id: "X-1", level: "MUST", needs: "kernel"}
	if state, _ := c.state(nil); state == "shown" {
		t.Error("a clause without a conversation counts as shown")
	}
	c.needs = "capability/nothing"
	if state, _ := c.state(nil); state != "open" {
		t.Errorf("a clause of a folder that does not exist is %s, want open", state)
	}
}
