//go:build ignore

// Crosscheck type-checks all packages and their tests for systems that the tests don't run on, and
// runs the analyses of go vet on them that need no other package. It works from source, and of the packages of
// others it reads the declarations only: compiling everything for four systems would take ten minutes of
// processor time, this takes one.
//
//	go run -modfile=tools/go.mod tools/crosscheck.go darwin/arm64 freebsd/amd64
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/packages"
)

var analyses = []*analysis.Analyzer{
	assign.Analyzer, atomic.Analyzer, bools.Analyzer, buildtag.Analyzer, copylock.Analyzer, directive.Analyzer,
	ifaceassert.Analyzer, nilfunc.Analyzer, shift.Analyzer, sigchanyzer.Analyzer, stdmethods.Analyzer,
	stringintconv.Analyzer, structtag.Analyzer, unmarshal.Analyzer, unreachable.Analyzer, unsafeptr.Analyzer,
}

func main() {
	failed := false
	for _, target := range os.Args[1:] {
		problems, err := check(target)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, text := range problems {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %s\n", target, text)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(target string) (problems []string, err error) {
	system, arch, _ := strings.Cut(target, "/")
	all, err := packages.Load(&packages.Config{
		Mode:      packages.LoadAllSyntax,
		Tests:     true,
		ParseFile: parse,
		Env:       append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS="),
	}, "./...")
	if err != nil {
		return nil, err
	}
	packages.Visit(all, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if e.Kind != packages.TypeError || own(p) {
				problems = append(problems, e.Error())
			}
		}
		p.IllTyped = false // or packages that import it wouldn't be analysed
	})
	if problems != nil {
		return problems, nil
	}
	graph, err := checker.Analyze(analyses, all, nil)
	if err != nil {
		return nil, err
	}
	for action := range graph.All() {
		if action.Err != nil {
			problems = append(problems, action.Err.Error())
		}
		if !action.IsRoot {
			continue
		}
		for _, d := range action.Diagnostics {
			problems = append(problems, fmt.Sprintf("%v: %s", action.Package.Fset.Position(d.Pos), d.Message))
		}
	}
	return problems, nil
}

// own reports whether a package was written here. Those of others, without function bodies, have imports that aren't used,
// and so has the main package that go test makes.
func own(p *packages.Package) bool {
	return strings.HasPrefix(p.PkgPath, "kernos/") && !strings.HasSuffix(p.PkgPath, ".test")
}

// parse parses a file, without function bodies if it isn't below this folder.
func parse(files *token.FileSet, name string, text []byte) (*ast.File, error) {
	here, err := os.Getwd()
	if err != nil || strings.HasPrefix(name, here+string(os.PathSeparator)) {
		return parser.ParseFile(files, name, text, parser.AllErrors|parser.ParseComments|parser.SkipObjectResolution)
	}
	f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if f != nil {
		for _, d := range f.Decls {
			if fn, is := d.(*ast.FuncDecl); is {
				fn.Body = nil
			}
		}
	}
	return f, err
}
