package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/message"
)

// TestALinkLeadsNoFurtherThanTheToken: a token with --files reaches the files that it was given, and none that a link
// in them leads to, by whatever syscall it asks; nor does it learn what is there.
func TestALinkLeadsNoFurtherThanTheToken(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shared/ci/own.md": "own", "shared/ci/sub/deep.md": "own", "shared/read/book.md": "own", "shared/other/secret.md": "---\nname: SECRET\n---\nSECRET", "shared/other/sub/far.md": "SECRET",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"rel": "../other", "up": "..", "file.md": "../other/secret.md", "twice": "rel", "sub/out": "../rel/sub", "inside": "sub", "own-too.md": "own.md", "book": "../read",
	} {
		if err := os.Symlink(target, filepath.Join(dir, "shared/ci", link)); err != nil {
			t.Fatal(err)
		}
	}
	w := openWith(t, &daemon.Options{Files: daemon.Files{Mounts: []string{"/=" + dir + ":tokens=write"}}})
	ci := w.token("ci", `"preset":"agent","files":["os://shared/ci","os://shared/read:ro"]`)
	const pointer = `{"scheme":"file","path":%q}`

	refused := []struct {
		what message.Type
		data string // with the name of a file or a directory out of reach
	}{
		{"VFS.Read", `{"uri":%q}`}, {"VFS.List", `{"uri":%q}`}, {"VFS.List", `{"uri":%q,"recursive":true}`}, {"VFS.Write", `{"uri":%q,"content":"x"}`}, {"VFS.Delete", `{"uri":%q,"recursive":true}`},
		{"Content.Hydrate", `{"uri":%q}`}, {"Content.Index", `{"uri":%q}`}, {"Content.Search", `{"uri":%q,"query":"SECRET"}`},
	}
	for _, kept := range []bool{false, true} {
		if kept { // what the owner has read, and the kernel keeps, is out of reach too
			w.must("Content.Index", `{"uri":"os://"}`, nil)
			w.must("Content.Search", `{"uri":"os://","query":"SECRET"}`, nil)
			w.must("Content.Hydrate", `{"uri":"os://shared/ci/rel/secret.md"}`, nil)
			w.must("Content.Hydrate", `{"uri":"os://shared/ci/file.md"}`, nil)
		}
		for _, name := range []string{"rel", "rel/secret.md", "rel/sub", "rel/sub/far.md", "rel/nothing", "rel/nothing/x", "rel/secret.md/x", "up/other", "up/other/secret.md", "file.md", "twice/secret.md", "sub/out/far.md", "inside/out/far.md", "rel/new.md", "rel/new/x.md"} {
			for _, c := range refused {
				if name == "rel" && c.what == "VFS.Delete" || name == "file.md" && (c.what == "VFS.Delete" || c.what == "VFS.Write") {
					continue // the link itself is the token's
				}
				o := w.call(ci, c.what, fmt.Sprintf(c.data, "os://shared/ci/"+name))
				if o.code == 0 && c.what == "Content.Hydrate" && !strings.Contains(string(o.data), "SECRET") {
					continue // with a problem
				}
				if o.code != 403 || strings.Contains(o.String(), "SECRET") || strings.Contains(o.text, "other/") && !strings.Contains(name, "other") {
					t.Errorf("%s %s: %v", c.what, name, o)
				}
			}
		}
		for _, c := range []struct {
			what message.Type
			data string
		}{
			{"VFS.List", `{"uri":"os://shared/ci"}`}, {"VFS.List", `{"uri":"os://shared/ci","recursive":true}`}, {"VFS.List", `{"uri":"os://shared/ci/sub"}`},
			{"Content.Index", `{"uri":"os://shared/ci"}`}, {"Content.Search", `{"uri":"os://shared/ci","query":"SECRET"}`},
		} {
			if o := w.call(ci, c.what, c.data); o.code != 0 || strings.Contains(string(o.data), "SECRET") || strings.Contains(string(o.data), "file.md") || strings.Contains(string(o.data), "rel") {
				t.Errorf("%s %s: %v", c.what, c.data, o)
			}
		}
	}
	if o := w.call(ci, "Memory.Set", fmt.Sprintf(`{"key":"copy","as":"text","valueRef":`+pointer+`}`, filepath.Join(dir, "shared/ci/file.md"))); o.code == 0 {
		t.Errorf("a pointer reads a file: %v", o)
	}
	if o := w.call(ci, "VFS.Write", `{"uri":"os://shared/ci/book/new.md","content":"x"}`); o.code != 403 {
		t.Errorf("a link leads from what the token may write to what it may read: %v", o)
	}
	for _, name := range []string{"own.md", "own-too.md", "inside/deep.md", "up/ci/own.md", "book/book.md"} {
		if o := w.call(ci, "VFS.Read", fmt.Sprintf(`{"uri":"os://shared/ci/%s"}`, name)); o.code != 0 || !strings.Contains(string(o.data), `"own"`) {
			t.Errorf("%s: %v", name, o)
		}
	}
	if o := w.call(ci, "VFS.Write", `{"uri":"os://shared/ci/inside/new/x.md","content":"x"}`); o.code != 0 {
		t.Error(o)
	}
	for name := range map[string]bool{"new.md": true, "new": true} {
		if _, err := os.Lstat(filepath.Join(dir, "shared/other", name)); err == nil {
			t.Errorf("%s was made out of reach", name)
		}
	}
	w.must("VFS.Read", `{"uri":"os://shared/ci/rel/secret.md"}`, nil) // the owner follows links
	if o := w.call(w.token("all", `"preset":"agent"`), "VFS.Read", `{"uri":"os://shared/ci/rel/secret.md"}`); o.code != 0 {
		t.Errorf("a token without --files: %v", o)
	}
}
