package conformance

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
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

// proof is a conversation or a test that shows clauses.
type proof struct {
	name, path string // the path is relative to the repository
	clauses    []string
	held       bool // it can be held today
}

// proofs lists the tests that name clauses, and then the conversations. A test proves what one conversation can't, such as
// a rule for all syscalls, and names its clauses in the last line of its comment.
func proofs(t *testing.T) (all []proof) {
	t.Helper()
	named := regexp.MustCompile(`(?m)^// Clauses: (.+)\nfunc (Test\w+)\(`)
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains([]string{".git", "node_modules", "npm", "third_party"}, d.Name()) {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			at, _ := filepath.Rel("..", file)
			all = append(all, proof{found[2], filepath.ToSlash(at), strings.Fields(found[1]), true})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range conversations(t) {
		all = append(all, proof{strings.TrimSuffix(c.path, ".txt"), path.Join("conformance", c.path), c.clauses, c.runs()})
	}
	return all
}

// TestClausesAreShown fails when a MUST or a SHOULD of something that is built has neither a
// conversation that is held nor a test.
func TestClausesAreShown(t *testing.T) {
	for _, problem := range unshown(clauses(t), proofs(t)) {
		t.Error(problem)
	}
}

// unshown says what is missing: a proof that is held for each MUST and SHOULD
// of what is built, a proof for every clause, a clause for every id.
func unshown(all []clause, proofs []proof) []string {
	known, named, held := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, c := range all {
		known[c.id] = true
	}
	var problems []string
	for _, p := range proofs {
		for _, id := range p.clauses {
			if !known[id] {
				problems = append(problems, fmt.Sprintf("%s names %s, which is no clause", p.path, id))
			}
			named[id] = true
			held[id] = held[id] || p.held
		}
	}
	for _, c := range all {
		switch {
		case c.level != "MAY" && built(c.needs) && !held[c.id]:
			problems = append(problems, fmt.Sprintf("%s (%s) is built in %s and nothing shows it: %s", c.id, c.level, c.needs, c.words))
		case !named[c.id]:
			problems = append(problems, fmt.Sprintf("%s is named by no conversation and no test: %s", c.id, c.words))
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
	want := document(clauses(t), proofs(t))
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

func document(all []clause, proofs []proof) []byte {
	var b bytes.Buffer
	b.WriteString(`# Conformance

Each clause of the specifications in our words, and the conversations and tests that show it.
This file is generated from [conformance/clauses.tsv](../conformance/clauses.tsv),
the conversations next to it, and the comments of tests; ` + "`make docs`" + ` writes it.

- **shown**: a conversation that names the clause is held in every test run, over every
  wire that can carry it, or a test that names it runs.
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
			state, files := c.state(proofs)
			count[state]++
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", c.id, c.level, escape(c.words), strings.Join(files, "<br>"), state))
		}
		fmt.Fprintf(&b, "## %s\n\n%d shown, %d open.\n\n", spec.title, count["shown"], count["open"])
		b.WriteString("| clause | level | in our words | shown by | state |\n|---|---|---|---|---|\n")
		b.WriteString(strings.Join(rows, ""))
		b.WriteString("\n")
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

// maxFiles is how many files a row of the document names.
const maxFiles = 3

// state tells how far a clause is, and what shows it.
func (c *clause) state(proofs []proof) (string, []string) {
	var held, waiting []string
	for _, p := range proofs {
		if !slices.Contains(p.clauses, c.id) {
			continue
		}
		link := fmt.Sprintf("[%s](../%s)", p.name, p.path)
		if p.held {
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
	talk := func(held bool, ids ...string) proof { return proof{path: "x.txt", clauses: ids, held: held} }
	for _, test := range []struct {
		name   string
		proofs []proof
		want   int
	}{
		{"all is well", []proof{talk(true, "X-1"), talk(false, "X-2")}, 0},
		{"no conversation at all", nil, 2},
		{"one that is not held shows nothing of what is built", []proof{talk(false, "X-1", "X-2")}, 1},
		{"an unknown clause", []proof{talk(true, "X-1", "X-2", "X-3")}, 1},
	} {
		if got := unshown([]clause{must, open}, test.proofs); len(got) != test.want {
			t.Errorf("%s: found %q, want %d", test.name, got, test.want)
		}
	}
	if state, _ := open.state(nil); state != "open" {
		t.Errorf("a clause of a folder that does not exist is %s, want open", state)
	}
	if !slices.ContainsFunc(proofs(t), func(p proof) bool { return p.name == "TestHostileData" && slices.Contains(p.clauses, "H20-10.2-2") }) {
		t.Error("the clauses of a test aren't read")
	}
}
