package clientconfig

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var launched = Server{Command: "/opt/kernos", Args: []string{"mcp", "--as", "x"}}

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
			got, err := c.add(before, launched)
			if err != nil {
				t.Fatal(err)
			}
			if got != after {
				t.Fatalf("got\n%s\nwant\n%s", got, after)
			}
			again, err := c.add(got, launched)
			if err != nil || again != got {
				t.Errorf("a second time changes it: %v\n%s", err, again)
			}
			if has, err := c.Has(got); !has || err != nil {
				t.Errorf("it isn't found: %v", err)
			}
			back, err := c.remove(got, before)
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
		})
	}
}

func TestFilesThatCantBeChanged(t *testing.T) {
	for name, text := range map[string]string{
		"cursor": `["a"]`, "vscode": `{"servers": 7}`, "zed": `{"a": `, "gemini": `// nothing`,
		"codex ": "mcp_servers = {}\n", "codex": "[mcp_servers.kernos]\ncommand = \"a\"\n[other]\nb = 1\n[mcp_servers.kernos.env]\nA = \"b\"\n",
	} {
		c, _ := Find(strings.TrimSpace(name))
		if got, err := c.add(text, launched); err == nil {
			t.Errorf("%s: %s becomes %s", name, text, got)
		}
	}
}

// Each client has its file where its documentation says, with the servers where the client looks for them.
func TestPaths(t *testing.T) {
	t.Setenv("HOME", "/home/ada")
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	config, err := os.UserConfigDir() // depends on the system
	if err != nil {
		t.Fatal(err)
	}
	config = strings.TrimPrefix(config, "/home/ada/")
	want := map[string][2]string{
		"claude-code": {".claude.json", "mcpServers"}, "claude-desktop": {config + "/Claude/claude_desktop_config.json", "mcpServers"},
		"codex": {".codex/config.toml", "mcp_servers"}, "cursor": {".cursor/mcp.json", "mcpServers"}, "gemini": {".gemini/settings.json", "mcpServers"},
		"opencode": {".config/opencode/opencode.json", "mcp"}, "vscode": {config + "/Code/User/mcp.json", "servers"},
		"antigravity": {".gemini/config/mcp_config.json", "mcpServers"}, "devin": {".config/devin/mcp_config.json", "mcpServers"},
		"windsurf": {".codeium/windsurf/mcp_config.json", "mcpServers"}, "zed": {".config/zed/settings.json", "context_servers"},
	}
	for _, c := range Known() {
		path, err := c.Path()
		if w := want[c.Name]; err != nil || path != "/home/ada/"+w[0] || c.under != w[1] {
			t.Errorf("%s: %s in %s, %v", c.Name, c.under, path, err)
		}
	}
	t.Setenv("CODEX_HOME", "/srv/codex")
	c, _ := Find("codex")
	if path, _ := c.Path(); path != "/srv/codex/config.toml" {
		t.Error(path)
	}
}

// For every client: the change is shown before the file is written, what is there stays, and undoing makes the file what it
// was, byte for byte, or takes only the server out if the file was changed meanwhile.
func TestEveryClient(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	const absent = "absent"
	for _, c := range Known() {
		full, compact, comment := `// mine
{
	"theme": "dark", // keep
	"`+c.under+`": { "other": { "command": "x", }, /* none */ },
}`, `{"a":{},"`+c.under+`":{"other":{"command":"x"}}}`, "// later\n"
		if c.shape == nil {
			full, compact, comment = "# mine\ntheme = \"dark\" # keep\n\n["+c.under+".other]\ncommand = \"x\"\n\n# none\n[last]\na = 1", "a = 1", "# later\n"
		}
		for about, before := range map[string]string{"no file": absent, "an empty file": "", "comments and servers": full, "other line ends": strings.ReplaceAll(full, "\n", "\r\n"), "one line": compact} {
			t.Run(c.Name+"/"+about, func(t *testing.T) {
				path, err := c.Path()
				if err != nil {
					t.Fatal(err)
				}
				put := func(text string) {
					t.Helper()
					if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o640)); err != nil {
						t.Fatal(err)
					}
				}
				now := func() string {
					text, err := os.ReadFile(path)
					if errors.Is(err, fs.ErrNotExist) {
						return absent
					}
					return string(text)
				}
				apply := func(ch *Change, err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
					if shown := strings.Join(Difference(ch.Before, ch.After), "\n"); !strings.Contains(shown, "kernos") {
						t.Errorf("it shows %s", shown)
					}
					if err := ch.Apply(); err != nil {
						t.Fatal(err)
					}
				}
				if put(before); before == absent {
					_ = os.Remove(path)
				}
				records := t.TempDir()
				ch, err := c.Install(launched, records)
				if got := now(); got != before {
					t.Fatalf("before it is agreed to, the file is %s", got)
				}
				apply(ch, err)
				installed := now()
				if has, err := c.Has(installed); err != nil || !has {
					t.Errorf("the server isn't in %s: %v", installed, err)
				}
				for _, kept := range []string{"mine", "keep", "none", "other"} {
					if strings.Contains(before, kept) && !strings.Contains(installed, kept) {
						t.Errorf("%q is lost in %s", kept, installed)
					}
				}
				apply(c.Undo(records))
				if got := now(); got != before {
					t.Errorf("undone, the file is %q, was %q", got, before)
				}
				apply(c.Install(launched, records))
				put(comment + now())
				apply(c.Undo(records))
				got := now()
				if has, err := c.Has(got); err != nil || has || !strings.HasPrefix(got, comment) {
					t.Errorf("undone after a change, the file is %s, %v", got, err)
				}
			})
		}
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
