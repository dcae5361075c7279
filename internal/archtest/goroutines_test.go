package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGoroutinesHaveOwners wants a section in the comment of each package that starts goroutines: which there are, how
// many, what starts them and what ends them. A package that starts none has no such section.
func TestGoroutinesHaveOwners(t *testing.T) {
	starts, described := make(map[string]string), make(map[string]bool)
	eachFile(t, func(name string) {
		dir := path.Dir(name)
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.Contains(forTests, dir) || strings.HasPrefix(dir, "examples/") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(f.Doc.Text(), "\n# Goroutines\n") {
			described[dir] = true
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if startsGoroutine(n) {
				starts[dir] = name
			}
			return true
		})
	})
	if len(starts) < 20 {
		t.Fatalf("only %d packages start goroutines: the test does not see the module", len(starts))
	}
	for dir, name := range starts {
		if !described[dir] {
			t.Errorf("%s starts a goroutine: the comment of its package needs a section # Goroutines, with what starts and what ends each", name)
		}
	}
	for dir := range described {
		if starts[dir] == "" {
			t.Errorf("the comment of package %s describes goroutines, and the package starts none", dir)
		}
	}
}

// startsGoroutine reports whether a node of a program starts a goroutine, at once or later: it is a go statement, or calls a
// method Go, or AfterFunc.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, _ := called.X.(*ast.Ident)
		return called.Sel.Name == "Go" || called.Sel.Name == "AfterFunc" && pkg != nil && (pkg.Name == "time" || pkg.Name == "context")
	}
	return false
}
