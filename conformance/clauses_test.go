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
	for _, problem := range unshown(clauses(t), conversations(t)) {
		t.Error(problem)
	}
}

// unshown says what is missing: a conversation that is held for each MUST and SHOULD
// of what is built, a conversation for every clause, a clause for every id.
func unshown(all []clause, talks []*conversation) []string {
	known, named, held := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, c := range all {
		known[c.id] = true
	}
	var problems []string
	for _, talk := range talks {
		for _, id := range talk.clauses {
			if !known[id] {
				problems = append(problems, fmt.Sprintf("%s names %s, which is no clause", talk.path, id))
			}
			named[id] = true
			held[id] = held[id] || talk.runs()
		}
	}
	for _, c := range all {
		switch {
		case c.level != "MAY" && built(c.needs) && !held[c.id]:
			problems = append(problems, fmt.Sprintf("%s (%s) is built in %s and no conversation shows it: %s", c.id, c.level, c.needs, c.words))
		case !named[c.id]:
			problems = append(problems, fmt.Sprintf("%s is named by no conversation: %s", c.id, c.words))
		}
	}
	return problems
}

var specifications = []struct{ prefix, title string }{
	{"M24", "RFC 0024, version 0.3: messages"},
	{"E24", "RFC 0024, version 0.1: the older dialect"},
	{"H20", "RFC 0020: content hydration"},
	{"RPC", "Introspective streaming RPC"},
	{"COG", "Cognitive messages"},
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

- **shown**: a conversation that names the clause is held in every test run, over every
  wire that can carry it.
- **open**: what the clause asks for is not built yet.

Where our words ask for less than the specification does, they say so.

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
		fmt.Fprintf(&b, "## %s\n\n%d shown, %d open.\n\n", spec.title, count["shown"], count["open"])
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
	if built(c.needs) && len(held) > 0 {
		return "shown", few(held)
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

// TestAMissingConversationIsNoticed breaks the rules of TestClausesAreShown on purpose.
func TestAMissingConversationIsNoticed(t *testing.T) {
	must := clause{id: "X-1", level: "MUST", needs: "kernel"}
	open := clause{id: "X-2", level: "MUST", needs: "capability/nothing"}
	talk := func(needs string, ids ...string) *conversation {
		c := &conversation{path: "x.txt", wire: "ndjson", clauses: ids}
		if needs != "" {
			c.needs = []string{needs}
		}
		return c
	}
	for _, test := range []struct {
		name  string
		talks []*conversation
		want  int
	}{
		{"all is well", []*conversation{talk("", "X-1"), talk("capability/nothing", "X-2")}, 0},
		{"no conversation at all", nil, 2},
		{"one that is not held shows nothing of what is built", []*conversation{talk("capability/nothing", "X-1", "X-2")}, 1},
		{"an unknown clause", []*conversation{talk("", "X-1", "X-2", "X-3")}, 1},
	} {
		if got := unshown([]clause{must, open}, test.talks); len(got) != test.want {
			t.Errorf("%s: found %q, want %d", test.name, got, test.want)
		}
	}
	if state, _ := open.state(nil); state != "open" {
		t.Errorf("a clause of a folder that does not exist is %s, want open", state)
	}
}
