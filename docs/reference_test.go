package docs_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// generated is in each page that the test writes.
const generated = `[//]: # "Written from the code by: go test ./docs -run TestReference -update"` + "\n"

// TestReference compares the pages of the reference with what the code has, and writes them with -update. What has no data
// in the code is written by hand: wire.md and agents.md.
func TestReference(t *testing.T) {
	pages := map[string]string{
		"settings.md": settingsPage(t), "config.yaml": configFile(t), "errors.md": errorsPage(t), "http.md": httpPage(),
		"limits.md": limitsPage(t), "exit.md": exitPage(t), "metrics.md": metricsPage(t),
	}
	for name, page := range syscallPages(t) {
		pages[name] = page
	}
	if len(pages) < 20 {
		t.Fatalf("only %d pages are generated", len(pages))
	}
	const dir = "reference"
	for name, want := range pages {
		file := filepath.Join(dir, name)
		have, err := os.ReadFile(file)
		switch {
		case err == nil && string(have) == want:
		case *update:
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		case err != nil:
			t.Errorf("%v (go test ./docs -run TestReference -update writes it)", err)
		default:
			t.Errorf("%s isn't what the code has: %s (go test ./docs -run TestReference -update writes it)", file, difference(string(have), want))
		}
	}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if _, known := pages[filepath.ToSlash(name)]; err != nil || known || !bytes.Contains(text, []byte(generated)) {
			return err
		}
		if *update {
			return os.Remove(file)
		}
		t.Errorf("%s is a page of nothing", file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// difference returns the first line in which two texts differ.
func difference(have, want string) string {
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %q, and should be %q", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("it has %d lines, and should have %d", len(a), len(b))
}

// A sheet is a page that grows.
type sheet struct{ strings.Builder }

// newSheet begins a generated page.
func newSheet(title string) *sheet {
	p := new(sheet)
	p.WriteString("# " + title + "\n\n" + generated)
	return p
}

// paragraph adds lines with an empty one before them.
func (p *sheet) paragraph(format string, args ...any) { fmt.Fprintf(p, "\n"+format+"\n", args...) }

// table adds a table; nothing, if it has no rows.
func (p *sheet) table(headings []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.WriteString("\n| " + strings.Join(headings, " | ") + " |\n|" + strings.Repeat("---|", len(headings)) + "\n")
	for _, row := range rows {
		p.WriteString("|")
		for _, text := range row {
			p.WriteString(" " + cell(text) + " |")
		}
		p.WriteString("\n")
	}
}

// cell returns a text as a table has it.
func cell(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", `\|`)), " ")
}

// sentence returns a comment or a description as a sentence.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// A constant is one of the code, with the comment behind it.
type constant struct{ name, value, comment string }

// constants returns those of a file that have a comment behind them, in groups that have a constant of this name.
func constants(t *testing.T, file, among string) (all []constant) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST || !slices.ContainsFunc(group.Specs, func(s ast.Spec) bool { return s.(*ast.ValueSpec).Names[0].Name == among }) {
			continue
		}
		for _, s := range group.Specs {
			spec := s.(*ast.ValueSpec)
			if len(spec.Values) != 1 || spec.Comment == nil {
				t.Errorf("%s: %s has no comment", file, spec.Names[0].Name)
				continue
			}
			all = append(all, constant{spec.Names[0].Name, literal(spec.Values[0]), strings.TrimSpace(spec.Comment.Text())})
		}
	}
	if len(all) == 0 {
		t.Errorf("%s has no constants beside %s", file, among)
	}
	return all
}

// literal returns the value of an expression that is a number, also a negative one, or a text.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value
	case *ast.UnaryExpr:
		return e.Op.String() + literal(e.X)
	}
	return ""
}
