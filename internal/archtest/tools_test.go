package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kernos/internal/testkit/tool"
)

// always are the programs that every machine on which the tests run has, or that a test has made itself.
var always = []string{"go", "git", "make", "sh", "sleep", "tar", "kernos", "zsh", "fish"}

// TestNoTestSkipsItself: a test that may skip proves nothing. The one reason to skip is a tool that the machine lacks;
// package tool counts these, and continuous integration has every tool.
func TestNoTestSkipsItself(t *testing.T) {
	files := 0
	eachFile(t, func(name string) {
		if !forATest(name) {
			return
		}
		files++
		code := read(t, name)
		for _, problem := range evasions(code) {
			t.Errorf("%s: %s", name, problem)
		}
	})
	if files < 300 {
		t.Fatalf("only %d files were read", files)
	}
}

// forATest reports whether a file holds tests, or what only tests use. The mechanism itself, and this test of it,
// may do what others may not.
func forATest(name string) bool {
	folder := filepath.ToSlash(filepath.Dir(name))
	if folder == "internal/archtest" || strings.HasPrefix(folder, "internal/testkit/tool") {
		return false
	}
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".go") && slices.Contains(forTests, folder)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// evasions returns what in a file of tests goes past package tool: skips, programs that a machine may lack, and
// modules of npm.
func evasions(code string) (problems []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "", code, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	asks := strings.Contains(code, "tool.Need(") || strings.Contains(code, "tool.Modules(") || strings.Contains(code, "tool.ModuleFolder(")
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if problem := evades(n, asks); problem != "" {
				problems = append(problems, problem)
			}
		case *ast.CompositeLit: // a command that is run later
			if array, is := n.Type.(*ast.ArrayType); !is || len(n.Elts) < 2 || array.Len != nil {
				break
			}
			if name := text(n.Elts[0]); lacking(name) && !asks {
				problems = append(problems, "a list begins with "+name+": ask for it with tool.Need")
			}
		case *ast.BasicLit:
			if path := text(n); strings.Contains(path, "npm/node_modules") {
				problems = append(problems, path+": tool.Modules returns the folder of npm's modules")
			}
		}
		return true
	})
	return problems
}

// evades reports what is wrong with a call, or returns "".
func evades(call *ast.CallExpr, asks bool) string {
	function, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return ""
	}
	receiver, _ := function.X.(*ast.Ident)
	program := -1 // which argument names one
	switch name := function.Sel.Name; {
	case receiver == nil:
	case name == "Skip" && len(call.Args) < 2 && receiver.Name != "jsonscan", name == "Skipf", name == "SkipNow":
		return receiver.Name + "." + name + ": a test may skip for want of a tool only, with tool.Need"
	case receiver.Name == "testing" && name == "Short":
		return "testing.Short: a test may skip for want of a tool only, with tool.Need"
	case receiver.Name == "exec" && (name == "Command" || name == "LookPath"):
		program = 0
	case receiver.Name == "exec" && name == "CommandContext":
		program = 1
	}
	if program < 0 || program >= len(call.Args) {
		return ""
	}
	if name := text(call.Args[program]); name != "" && !slices.Contains(always, name) && !(lacking(name) && asks) {
		return "it runs " + name + ", which a machine may lack: ask for it with tool.Need"
	}
	return ""
}

// lacking reports whether a name is a program's that a machine may lack.
func lacking(name string) bool {
	return name != "browser" && slices.ContainsFunc(tool.List(), func(t tool.Tool) bool { return t.Name == name })
}

// text returns the value of a literal, or "".
func text(e ast.Expr) string {
	literal, is := e.(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return ""
	}
	value, _ := strconv.Unquote(literal.Value)
	return value
}

func TestEvasionsAreFound(t *testing.T) {
	for body, found := range map[string]bool{
		`t.Skip("not today")`:                               true,
		`t.Skip()`:                                          true,
		`b.Skipf("%d", 1)`:                                  true,
		`t.SkipNow()`:                                       true,
		`if testing.Short() {}`:                             true,
		`exec.Command("jq", ".")`:                           true,
		`exec.CommandContext(ctx, "perl")`:                  true,
		`exec.LookPath("node")`:                             true,
		`run([]string{"python3", "x.py"})`:                  true,
		`os.Stat("../npm/node_modules/typescript")`:         true,
		`jsonscan.Skip(b, 1)`:                               false,
		`exec.Command("sh", "-c", line)`:                    false,
		`exec.Command(binary, "serve")`:                     false,
		`tool.Need(t, "jq"); exec.Command("jq", ".")`:       false,
		`tool.Need(t, "node"); exec.Command("perl")`:        true,
		`tool.Need(t, c[0]); run([]string{"node", "x.js"})`: false,
		`run([]string{"kernos", "serve"})`:                  false,
	} {
		if problems := evasions("package p\nfunc f() { " + body + " }"); (problems != nil) != found {
			t.Errorf("%s: got %q", body, problems)
		}
	}
}
