// Command rename gives the module of a folder, and the modules inside of it, another path:
//
//	go run ./rename -dir .. example.com/kernos
//
// It changes what means the module: the paths in go.mod files, the imports of Go code, also where the code is part of a
// page, a template or another language, links of doc comments, and the paths of programs that Go code builds. A word
// that only looks like the path, such as a folder or the key of a protocol, stays.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", ".", "the folder of the module")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: rename [-dir DIR] PATH")
	}
	files, err := rename(*dir, flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d files have the module path %s now.\n", files, flag.Arg(0))
}

// A renaming replaces one module path by another.
type renaming struct {
	from, to string
	programs []string // the folders of the module that have a program
}

// rename renames the module in a folder, and returns how many files it has changed.
func rename(dir, to string) (changed int, err error) {
	if err := valid(to); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return 0, err
	}
	declared := regexp.MustCompile(`(?m)^module (\S+)$`).FindSubmatch(text)
	if declared == nil {
		return 0, fmt.Errorf("%s/go.mod has no module path", dir)
	}
	r := &renaming{from: string(declared[1]), to: to}
	names, err := sources(dir)
	if err != nil {
		return 0, err
	}
	texts := make(map[string][]byte)
	for _, name := range names {
		if texts[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return 0, err
		}
		if strings.HasSuffix(name, ".go") && bytes.Contains(texts[name], []byte("\npackage main\n")) {
			r.programs = append(r.programs, filepath.ToSlash(filepath.Dir(name)))
		}
	}
	for _, name := range names {
		renamed, err := r.file(name, texts[name])
		if err != nil {
			return changed, fmt.Errorf("%s: %w", name, err)
		}
		if bytes.Equal(renamed, texts[name]) {
			continue
		}
		changed++
		if err := os.WriteFile(filepath.Join(dir, name), renamed, 0o644); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// valid checks a module path: elements of letters, digits and a few marks, and a host first, without which go get
// doesn't find it.
func valid(path string) error {
	if !regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`).MatchString(path) {
		return fmt.Errorf("%q isn't a module path: it begins with a host, as in example.com/kernos", path)
	}
	return nil
}

// sources returns the files that people write, below a folder. What programs make and what others wrote is left out.
func sources(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "node_modules", "third_party"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		endings := []string{".go", ".mod", ".md", ".ts", ".tsx", ".js", ".tmpl", ".txt", ".txtar"}
		if d.Type().IsRegular() && slices.Contains(endings, filepath.Ext(path)) && d.Name() != "CHANGELOG.md" {
			name, err := filepath.Rel(dir, path)
			names = append(names, name)
			return err
		}
		return nil
	})
	return names, err
}

// file returns the text of a file with the module renamed.
func (r *renaming) file(name string, text []byte) ([]byte, error) {
	if filepath.Ext(name) == ".mod" {
		return r.modFile(text), nil
	}
	renamed := r.imports(text)
	if filepath.Ext(name) == ".md" {
		return r.commands(renamed), nil
	}
	if filepath.Ext(name) != ".go" {
		return renamed, nil
	}
	renamed = r.builds(r.links(renamed))
	if bytes.Equal(renamed, text) {
		return text, nil
	}
	formatted, err := format.Source(renamed) // imports are sorted by their paths
	return formatted, err
}

// replace replaces the module path where a pattern has it between its first and its second group.
func (r *renaming) replace(text []byte, before, after string) []byte {
	pattern := regexp.MustCompile(`(?m)(` + before + `)` + regexp.QuoteMeta(r.from) + `(` + after + `)`)
	return pattern.ReplaceAll(text, []byte("${1}"+r.to+"${2}"))
}

// modFile renames the module, and the modules inside of it, wherever a go.mod file names them.
func (r *renaming) modFile(text []byte) []byte {
	return r.replace(text, `^|[ \t]`, `(?:/\S*)?(?:$|[ \t])`)
}

// imports renames lines that are an import: in Go files, and in Go code inside of other texts.
func (r *renaming) imports(text []byte) []byte {
	return r.replace(text, `^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?"`, `/[\w./-]+"[ \t]*(?://.*)?$`)
}

// links renames links of doc comments, as in [kernos/schema.Schema].
func (r *renaming) links(text []byte) []byte {
	return r.replace(text, `//.*\[`, `/[\w/-]+(?:\.\w+)*\]`)
}

// builds renames literals that are the path of a program of the module.
func (r *renaming) builds(text []byte) []byte {
	for _, folder := range r.programs {
		text = r.replace(text, `"`, `/`+regexp.QuoteMeta(folder)+`"`)
	}
	return text
}

// commands renames what pages tell the reader to type, or to write into a go.mod file.
func (r *renaming) commands(text []byte) []byte {
	return r.replace(text, `^[ \t]*(?:require|replace)[ \t]+|-require=|-replace=`, ` v\d| =>|@v\d|=`)
}
