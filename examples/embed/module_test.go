package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// command runs a command, and returns what it prints on standard output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	// As make test compiles, so that what it has compiled isn't compiled again.
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off", "MAKEFLAGS=")
	var notes strings.Builder
	c.Stderr = &notes
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &notes)
	}
	return string(out)
}

// copied copies the files of the repository that people write.
func copied(t *testing.T, root string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// A program of another module finds Kernos with two lines in its go.mod file, under its own path and under the one that
// make module has given it.
func TestAProgramOfAnotherModule(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	own := strings.TrimSpace(command(t, root, "go", "list", "-m"))
	const another = "example.com/renamed/kernos"
	for _, module := range []string{own, another} {
		t.Run(module, func(t *testing.T) {
			root := root
			if module != own {
				root = copied(t, root)
				command(t, root, "make", "module", "MODULE="+module)
			}
			text, err := os.ReadFile(filepath.Join(root, "examples", "embed", "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			if imports := fmt.Sprintf("\t%q\n", module+"/daemon"); !strings.Contains(string(text), imports) {
				t.Fatalf("the example doesn't import %s:\n%s", imports, text)
			}
			// What the modules that Kernos requires must be is known, so that no server is asked. One of them is replaced
			// in its go.mod file, which holds there only: bench has the sum of the published one.
			sums := ""
			for _, name := range []string{"go.sum", "bench/go.sum"} {
				sum, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				sums += string(sum)
			}
			dir := t.TempDir()
			for name, text := range map[string]string{
				"go.mod":  "module shop\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\nreplace " + module + " => " + root + "\n",
				"go.sum":  sums,
				"main.go": string(text),
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if module == own {
				// All imports are found. The other program is built and run, since compiling Kernos once more takes half a minute.
				command(t, dir, "go", "list", "-mod=mod", "-deps", ".")
				return
			}
			// Without optimizations, compiling Kernos takes half as long.
			command(t, dir, "go", "build", "-mod=mod", "-gcflags="+module+"/...=-N -l", "-ldflags=-s -w", "-o", "shop", ".")
			if got := command(t, dir, filepath.Join(dir, "shop")); got != "reply {\"text\":\"HELLO!\"}\n" {
				t.Errorf("it prints %q", got)
			}
		})
	}
}
