package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kernos/message"
	"kernos/transport"
)

func errorsPage(t *testing.T) string {
	t.Helper()
	p := newSheet("Errors")
	p.paragraph(`An error is ` + "`{code, message, cause?}`" + `, the same over every wire: the code is an HTTP status, the message is for a person to
read, and the cause is the error that made it happen. Programs decide by the code. The page of a syscall says which conditions give which code.`)
	p.paragraph("## Codes")
	var rows [][]string
	for _, c := range message.Codes() {
		rows = append(rows, []string{fmt.Sprintf("**%d** %s", c.Code, c.Name), c.Cause, c.Remedy})
	}
	p.table([]string{"code", "cause", "remedy"}, rows)
	p.paragraph("## Refusals of HTTP")
	p.paragraph("A request that no syscall has answered gets `{code, name, message}`. The name is part of the interface.")
	rows = nil
	for _, r := range transport.Refusals() {
		status := "differs"
		if r.Status != 0 {
			status = strconv.Itoa(r.Status)
		}
		rows = append(rows, []string{"`" + r.Name + "`", status, r.Cause, r.Remedy})
	}
	p.table([]string{"name", "code", "cause", "remedy"}, rows)
	for _, wire := range []struct{ title, about, file, among string }{
		{"Errors of JSON-RPC", "Over a WebSocket, what isn't a call gets an error of JSON-RPC. A call is answered by its stream, whose error item has a code as above.", "transport/rpc/request.go", "codeParse"},
		{"Errors of MCP", "A tool that fails answers with `isError` and a text that begins with the code as above. What isn't a call of a tool gets an error of JSON-RPC.", "internal/mcp/mcp.go", "ParseError"},
	} {
		p.paragraph("## %s", wire.title)
		p.paragraph("%s", wire.about)
		rows = nil
		for _, c := range constants(t, wire.file, wire.among) {
			rows = append(rows, []string{c.value, sentence(c.comment)})
		}
		p.table([]string{"code", "cause"}, rows)
	}
	return p.String()
}

// TestErrorsOfTheReferenceAreAll looks in the code for the errors that Kernos gives, and for the names of refusals.
func TestErrorsOfTheReferenceAreAll(t *testing.T) {
	listed, used := make(map[int]bool), make(map[int]string)
	for _, c := range message.Codes() {
		listed[c.Code] = true
	}
	statuses, refused := make(map[string]int), make(map[string]string)
	for _, r := range transport.Refusals() {
		statuses[r.Name] = r.Status
	}
	s := &source{texts: make(map[string]string)}
	s.read(t)
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			at := func() string { return s.set.Position(n.Pos()).String() }
			if code := errorCode(n); code != 0 {
				used[code] = at()
			}
			if name, status := s.refusal(n); name != "" {
				refused[name] = at()
				if want, ok := statuses[name]; ok && want != 0 && status != 0 && want != status {
					t.Errorf("%s: %s has the status %d here, and %d in transport.Refusals", at(), name, status, want)
				}
			}
			return true
		})
	}
	for code, at := range used {
		if !listed[code] {
			t.Errorf("%s: message.Codes doesn't have %d", at, code)
		}
	}
	for code := range listed {
		if used[code] == "" && code != http.StatusGone && code != http.StatusUpgradeRequired { // refusals of HTTP only
			t.Errorf("message.Codes has %d, which isn't used", code)
		}
	}
	for name, at := range refused {
		if _, ok := statuses[name]; !ok {
			t.Errorf("%s: transport.Refusals doesn't have %s", at, name)
		}
	}
	for name := range statuses {
		if refused[name] == "" {
			t.Errorf("transport.Refusals has %s, which isn't used; there are %s", name, slices.Sorted(maps.Keys(refused)))
		}
	}
}

// source is the code of the module, without its tests.
type source struct {
	set   *token.FileSet
	files []*ast.File
	texts map[string]string // constants that are texts
}

func (s *source) read(t *testing.T) {
	t.Helper()
	s.set = token.NewFileSet()
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bench", "bin", "examples", "internal/testkit", "node_modules", "sdk", "third_party", "tools"}, strings.TrimPrefix(filepath.ToSlash(name), "../")) {
			return filepath.SkipDir
		}
		if d.IsDir() && d.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(s.set, name, nil, parser.SkipObjectResolution)
		if err == nil {
			s.files = append(s.files, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.files {
		for _, d := range f.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				for i, value := range spec.(*ast.ValueSpec).Values {
					if text := s.text(value); text != "" {
						s.texts[spec.(*ast.ValueSpec).Names[i].Name] = text
					}
				}
			}
		}
	}
}

// text returns the value of a text, also by the name of a constant.
func (s *source) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.Ident:
		return s.texts[e.Name]
	case *ast.SelectorExpr:
		return s.texts[e.Sel.Name]
	}
	return ""
}

// status returns the value of a code: a number from 400 to 599, or a constant of net/http; 0 for anything else.
func status(e ast.Expr) int {
	switch e := e.(type) {
	case *ast.BasicLit:
		if code, err := strconv.Atoi(e.Value); err == nil && code >= 400 && code <= 599 {
			return code
		}
	case *ast.SelectorExpr:
		for code := 400; code < 600; code++ {
			if words := http.StatusText(code); words != "" && "Status"+strings.NewReplacer(" ", "", "-", "").Replace(words) == e.Sel.Name {
				return code
			}
		}
	}
	return 0
}

// errorCode returns the code of an error that a node makes or declares: Errorf(404, …), {Code: 404}, Fault{404, …}.
func errorCode(n ast.Node) int {
	switch n := n.(type) {
	case *ast.CallExpr:
		if name := called(n); len(n.Args) > 0 && (name == "Errorf") {
			return status(n.Args[0])
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
			return status(n.Value)
		}
	case *ast.CompositeLit:
		if name, ok := n.Type.(*ast.Ident); len(n.Elts) > 1 && (!ok || name.Name != "refusal") {
			if code, ok := n.Elts[0].(*ast.BasicLit); ok && !strings.Contains(fmt.Sprint(n.Type), "Code") {
				return status(code)
			}
		}
	}
	return 0
}

// called returns the name of what a call calls, without its package.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// refusal returns the name and the status of a refusal: refusal{404, "name", …}, Refuse(w, 404, "name", …).
func (s *source) refusal(n ast.Node) (name string, code int) {
	switch n := n.(type) {
	case *ast.CompositeLit:
		if of, ok := n.Type.(*ast.Ident); ok && of.Name == "refusal" && len(n.Elts) == 3 {
			return s.text(n.Elts[1]), status(n.Elts[0])
		}
	case *ast.CallExpr:
		if called(n) == "Refuse" && len(n.Args) == 4 {
			return s.text(n.Args[2]), status(n.Args[1])
		}
	}
	return "", 0
}
