//go:build ignore

// Crosscheck type-checks all packages and their tests for systems that the tests don't run on, and
// runs the analyses of go vet on them that need no other package. It works from source. It reads a file once for all systems,
// checks the function bodies of a package once, together with those of its tests, and reads only the declarations of the
// packages of others: compiling everything for four systems would take ten minutes of processor time, this takes a
// third of one.
//
//	go run -modfile=tools/go.mod tools/crosscheck.go darwin/arm64 freebsd/amd64
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

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
	debug.SetGCPercent(400) // almost everything that is read is kept
	targets := os.Args[1:]
	results := make([][]string, len(targets))
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, target := range targets {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			problems, err := check(target)
			if err != nil {
				problems = append(problems, err.Error())
			}
			results[i] = problems
		})
	}
	all.Wait()
	failed := false
	for i, problems := range results {
		for _, text := range problems {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %s\n", targets[i], text)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(target string) (problems []string, err error) {
	system, arch, _ := strings.Cut(target, "/")
	all, err := packages.Load(&packages.Config{
		Mode:  packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypesSizes | packages.NeedModule,
		Tests: true,
		Env:   append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS="),
	}, "./...")
	if err != nil {
		return nil, err
	}
	tested := map[string]bool{} // packages that have tests inside
	for _, p := range all {
		if p.ID == p.PkgPath+" ["+p.PkgPath+".test]" {
			tested[p.PkgPath] = true
		}
	}
	var whole []*packages.Package
	packages.Visit(all, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			problems = append(problems, e.Error())
		}
		if strings.HasSuffix(p.PkgPath, ".test") {
			return // the main package that go test makes
		}
		bodies := own(p) && !tested[p.ID] && (p.ID == p.PkgPath || strings.HasSuffix(p.ID, " ["+strings.TrimSuffix(p.PkgPath, "_test")+".test]"))
		if bodies {
			whole = append(whole, p)
		}
		problems = append(problems, typed(p, bodies)...)
	})
	if problems != nil {
		return problems, nil
	}
	graph, err := checker.Analyze(analyses, whole, nil)
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

// own reports whether a package was written here.
func own(p *packages.Package) bool {
	return p.Module != nil && p.Module.Main
}

// typed reads a package and checks its types, after those that it imports. It doesn't report problems of packages of others,
// which are read in part.
func typed(p *packages.Package, bodies bool) (problems []string) {
	p.Fset = &files
	for _, name := range p.GoFiles {
		f, err := parse(name)
		if err != nil {
			problems = append(problems, err.Error())
		}
		if f != nil {
			p.Syntax = append(p.Syntax, f)
		}
	}
	if bodies {
		p.TypesInfo = &types.Info{
			Types:        map[ast.Expr]types.TypeAndValue{},
			Instances:    map[*ast.Ident]types.Instance{},
			Defs:         map[*ast.Ident]types.Object{},
			Uses:         map[*ast.Ident]types.Object{},
			Implicits:    map[ast.Node]types.Object{},
			Selections:   map[*ast.SelectorExpr]*types.Selection{},
			Scopes:       map[ast.Node]*types.Scope{},
			FileVersions: map[*ast.File]string{},
		}
	}
	config := &types.Config{
		Importer:         imports(p.Imports),
		Sizes:            p.TypesSizes,
		IgnoreFuncBodies: !bodies,
		FakeImportC:      true,
		Error: func(err error) {
			if own(p) {
				problems = append(problems, err.Error())
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	p.Types, _ = config.Check(p.PkgPath, &files, p.Syntax, p.TypesInfo) // the function Error has got the error
	return problems
}

// imports are the packages that a package imports, by the paths in its source.
type imports map[string]*packages.Package

func (i imports) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := i[path]; p != nil && p.Types != nil {
		return p.Types, nil
	}
	return nil, fmt.Errorf("package %s isn't there", path)
}

// files are the files that have been read.
var files token.FileSet

// parsed has the files by their names, as functions that parse a file when they are called first. The content of a file is the
// same for all systems.
var parsed sync.Map

// parse parses a file once. Of a file that isn't below this folder it keeps what types are made of: no function bodies and
// no values in the literals of variables.
func parse(name string) (*ast.File, error) {
	read, _ := parsed.LoadOrStore(name, sync.OnceValues(func() (*ast.File, error) {
		here, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(name, here+string(os.PathSeparator)) {
			return parser.ParseFile(&files, name, nil, parser.AllErrors|parser.ParseComments|parser.SkipObjectResolution)
		}
		f, err := parser.ParseFile(&files, name, nil, parser.SkipObjectResolution)
		if f != nil {
			strip(f)
		}
		return f, err
	}))
	return read.(func() (*ast.File, error))()
}

// strip removes from a file what its declarations don't need.
func strip(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			d.Body = nil
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				for _, value := range spec.(*ast.ValueSpec).Values {
					empty(value)
				}
			}
		}
	}
}

// empty removes the elements of a literal, unless its type is an array that has as many as they are.
func empty(value ast.Expr) {
	switch value := value.(type) {
	case *ast.UnaryExpr:
		empty(value.X)
	case *ast.CompositeLit:
		if array, is := value.Type.(*ast.ArrayType); is {
			if _, counted := array.Len.(*ast.Ellipsis); counted {
				return
			}
		}
		value.Elts = nil
	}
}
