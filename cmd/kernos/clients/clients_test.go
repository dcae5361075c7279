package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var server = Server{Command: "/opt/kernos", Args: []string{"mcp", "--as", "x"}}

// TestAdd puts the server into files as people have them. A txtar-like file has the file before and after.
func TestAdd(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			before, after, ok := strings.Cut(string(text), "==== after\n")
			if !ok {
				t.Fatal("the file has no line ==== after")
			}
			name, _, _ := strings.Cut(filepath.Base(file), "_")
			c, ok := Find(strings.TrimSuffix(name, ".txt"))
			if !ok {
				t.Fatal("no such client")
			}
			got, err := c.Add(before, server)
			if err != nil {
				t.Fatal(err)
			}
			if got != after {
				t.Fatalf("got\n%s\nwant\n%s", got, after)
			}
			again, err := c.Add(got, server)
			if err != nil || again != got {
				t.Errorf("a second time changes it: %v\n%s", err, again)
			}
			if has, err := c.Has(got); !has || err != nil {
				t.Errorf("it isn't found: %v", err)
			}
			back, err := c.Remove(got, before)
			if err != nil {
				t.Fatal(err)
			}
			was, err := c.file.values(before)
			if err != nil {
				t.Fatal(err)
			}
			is, err := c.file.entry(back, c.under)
			want, _ := c.file.entry(before, c.under)
			if err != nil || is != want {
				t.Errorf("after the removal the entry is %q (%v), want %q", is, err, want)
			}
			for _, line := range strings.Split(before, "\n") {
				if comment := strings.TrimSpace(line); (strings.HasPrefix(comment, "//") || strings.HasPrefix(comment, "#")) && !strings.Contains(back, comment) {
					t.Errorf("the removal loses %s:\n%s", comment, back)
				}
			}
			_ = was
		})
	}
}

func TestFilesThatCantBeChanged(t *testing.T) {
	for name, text := range map[string]string{
		"cursor": `["a"]`, "vscode": `{"servers": 7}`, "zed": `{"a": `, "gemini": `// nothing`,
		"codex": "[mcp_servers.kernos]\ncommand = \"a\"\n[other]\nb = 1\n[mcp_servers.kernos.env]\nA = \"b\"\n",
	} {
		c, _ := Find(name)
		if got, err := c.Add(text, server); err == nil {
			t.Errorf("%s: %s becomes %s", name, text, got)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Setenv("HOME", "/home/ada")
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	for _, c := range All() {
		path, err := c.Path()
		if err != nil || !strings.HasPrefix(path, "/home/ada/") {
			t.Errorf("%s: %s, %v", c.Name, path, err)
		}
	}
	t.Setenv("CODEX_HOME", "/srv/codex")
	c, _ := Find("codex")
	if path, _ := c.Path(); path != "/srv/codex/config.toml" {
		t.Error(path)
	}
}

func TestDifference(t *testing.T) {
	got := strings.Join(Difference("a\nb\nc\nd\ne\n", "a\nb\nc\nd\nX\nY\ne\n"), "\n")
	if want := "  b\n  c\n  d\n+ X\n+ Y\n  e"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Difference("", "a\n"); len(got) != 1 || got[0] != "+ a" {
		t.Errorf("%q", got)
	}
}
