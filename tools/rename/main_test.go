package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Each pair is a file before and after.
func TestRename(t *testing.T) {
	files := map[string][2]string{
		"go.mod":       {"module kernos\n\ngo 1.26.0\n\nrequire example.org/kernos v1.0.0\n", "module example.com/kernos\n\ngo 1.26.0\n\nrequire example.org/kernos v1.0.0\n"},
		"bench/go.mod": {"module kernos/bench\n\nrequire (\n\tkernos v0.0.0\n\tkernosine v1.0.0\n)\n\nreplace kernos => ..\n", "module example.com/kernos/bench\n\nrequire (\n\texample.com/kernos v0.0.0\n\tkernosine v1.0.0\n)\n\nreplace example.com/kernos => ..\n"},
		"cmd/kernos/main.go": {
			"// Command kernos is described in [kernos/daemon.Options], not in kernos/daemon.\npackage main\n\nimport (\n\tzebra \"example.org/zebra\"\n\t_ \"kernos/daemon\"\n\talias \"kernos/sdk/go\"\n)\n\nvar path = \"kernos/message\"\n",
			"// Command kernos is described in [example.com/kernos/daemon.Options], not in kernos/daemon.\npackage main\n\nimport (\n\t_ \"example.com/kernos/daemon\"\n\talias \"example.com/kernos/sdk/go\"\n\tzebra \"example.org/zebra\"\n)\n\nvar path = \"kernos/message\"\n",
		},
		"one.go": {"package one\n\nimport \"kernos/daemon\"\n", "package one\n\nimport \"example.com/kernos/daemon\"\n"},
		"one_test.go": {
			"package one\n\nvar a = build(\"kernos/cmd/kernos\")\nvar b = []string{\"kernos\", \"kernos/cmd/kernosine\", \"/home/kernos/cmd/kernos\"}\n",
			"package one\n\nvar a = build(\"example.com/kernos/cmd/kernos\")\nvar b = []string{\"kernos\", \"kernos/cmd/kernosine\", \"/home/kernos/cmd/kernos\"}\n",
		},
		"page.md": {
			"In ~/.local/share/kernos/store, `kernos/causation`:\n\n```go\nimport (\n\t\"kernos/kernel\" // the kernel\n)\n```\n\n    require kernos v0.0.0\n\nrequire kernos v0.0.0\nreplace kernos => ../kernos\n$ go mod edit -require=kernos@v0.0.0 -replace=kernos=../kernos\n",
			"In ~/.local/share/kernos/store, `kernos/causation`:\n\n```go\nimport (\n\t\"example.com/kernos/kernel\" // the kernel\n)\n```\n\n    require example.com/kernos v0.0.0\n\nrequire example.com/kernos v0.0.0\nreplace example.com/kernos => ../kernos\n$ go mod edit -require=example.com/kernos@v0.0.0 -replace=example.com/kernos=../kernos\n",
		},
		"view.ts":               {"const program = `\nimport (\n\t\"kernos/client\"\n)`;\nconst key = \"kernos/client\";\n", "const program = `\nimport (\n\t\"example.com/kernos/client\"\n)`;\nconst key = \"kernos/client\";\n"},
		"CHANGELOG.md":          {"require kernos v0.0.0\n", "require kernos v0.0.0\n"},
		"third_party/go.mod":    {"module kernos/third\n", "module kernos/third\n"},
		"node_modules/x/x.md":   {"require kernos v0.0.0\n", "require kernos v0.0.0\n"},
		"testdata/kernos/a.txt": {"kernos kernos/daemon\n", "kernos kernos/daemon\n"},
	}
	dir := t.TempDir()
	for name, pair := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(pair[0]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changed, err := rename(dir, "example.com/kernos")
	if err != nil || changed != 7 {
		t.Errorf("%d files were changed, %v", changed, err)
	}
	for name, pair := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(text) != pair[1] {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text, pair[1])
		}
	}
	if changed, err := rename(dir, "example.net/k/v2"); err != nil || changed != 7 {
		t.Errorf("again: %d files were changed, %v", changed, err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "bench/go.mod")); string(text) != "module example.net/k/v2/bench\n\nrequire (\n\texample.net/k/v2 v0.0.0\n\tkernosine v1.0.0\n)\n\nreplace example.net/k/v2 => ..\n" {
		t.Errorf("again: %s", text)
	}
}

func TestPathsThatAreNone(t *testing.T) {
	for path, ok := range map[string]bool{
		"example.com/kernos": true, "example.com": true, "git.example.com/a/b-c/v2": true,
		"kernos": false, "": false, "example.com/": false, "example.com//a": false, "https://example.com/a": false, "example.com/a b": false, "example.com/../a": false,
	} {
		if err := valid(path); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}
