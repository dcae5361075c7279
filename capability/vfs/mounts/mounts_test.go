package mounts

import (
	"path/filepath"
	"strings"
	"testing"

	"kernos/capability/vfs"
	"kernos/capability/vfs/vfstest"
)

func TestDefaultRoot(t *testing.T) {
	dir := t.TempDir()
	m, err := DefaultRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{m}})
	f, err := tree.Read(t.Context(), "os://greeting.md")
	if err != nil || !strings.Contains(string(f.Data), "./skills/first-steps.md") {
		t.Errorf("the greeting: %v", err)
	}
	skill, err := tree.Resolve("./skills/first-steps.md", f.URI)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := tree.Read(t.Context(), skill); err != nil || !strings.HasPrefix(string(f.Data), "---\nname: first-steps\n") {
		t.Errorf("the skill of the greeting: %v", err)
	}
	_, err = tree.Write(t.Context(), "os://greeting.md", nil, "")
	vfstest.WantCode(t, "writing the greeting", err, 403)
	_, err = tree.Read(t.Context(), "os://unknown/resource.md")
	if want := "VFS fetch failed: no matching mount for os:///unknown/resource.md and root is undefined"; err == nil || err.Error() != want {
		t.Errorf("a file that the greeting doesn't have: %v, want %s", err, want)
	}

	vfstest.Put(t, dir, map[string]string{"os/agent.md": "mine"})
	if m, err = DefaultRoot(dir, nil); err != nil {
		t.Fatal(err)
	}
	tree = vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{m}})
	if f, err := tree.Read(t.Context(), "os://agent.md"); err != nil || string(f.Data) != "mine" {
		t.Errorf("read %q, %v", f.Data, err)
	}
	_, err = tree.Write(t.Context(), "os://agent.md", nil, "")
	vfstest.WantCode(t, "writing the root", err, 403)
}

func TestADefaultRootThatIsPrivate(t *testing.T) {
	home := t.TempDir()
	vfstest.Put(t, home, map[string]string{"origins/mine/os/file": "SECRET"})
	m, err := DefaultRoot(filepath.Join(home, "origins", "mine"), []string{home})
	if err != nil {
		t.Fatal(err)
	}
	_, err = vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{m}}).Read(t.Context(), "os://file")
	vfstest.WantCode(t, "the default root", err, 403)
}

func TestParse(t *testing.T) {
	dir := t.TempDir()
	vfstest.Put(t, dir, map[string]string{"file": "", "a=b/x": "", "c:ro/x": ""})
	for _, test := range []struct{ text, at, can, driver string }{
		{"/n=" + dir, "/n", "rwx", "directory " + dir},
		{"/n=" + dir + ":ro", "/n", "r-x", "directory " + dir},
		{"/n=" + dir + ":ro:noexec", "/n", "r--", "directory " + dir},
		{"/n=" + dir + ":noexec", "/n", "rw-", "directory " + dir},
		{"/=" + dir + "/a=b", "/", "rwx", "directory " + dir + "/a=b"},
		{"/n=" + dir + "/c:ro:ro", "/n", "r-x", "directory " + dir + "/c:ro"},
		{"/s=https://example.com/a", "/s", "r--", "server https://example.com/a/"},
		{"/s=https://example.com:ro", "/s", "r--", "server https://example.com/"},
	} {
		m, err := Parse(test.text, Options{})
		if err != nil || m.Path != test.at || m.Driver.Can().String() != test.can || m.Driver.String() != test.driver {
			t.Errorf("Parse(%s) = %+v, %v", test.text, m, err)
		}
	}
	for _, test := range []struct{ text, says string }{
		{"", "PATH=TARGET"},
		{"/n", "PATH=TARGET"},
		{"/n=", "PATH=TARGET"},
		{"/n=:ro", "PATH=TARGET"},
		{"=" + dir, "PATH=TARGET"},
		{"n=" + dir, "slash"},
		{"/n=" + filepath.Join(dir, "nothing"), "no such file"},
		{"/n=" + filepath.Join(dir, "file"), "directory"},
		{"/n=http://example.com", "not encrypted"},
		{"/n=ftp://example.com", "not ftp"},
		{"/n=https://", "https://host/path"},
		{"/n=https://me:hunter2@example.com", "user name"},
		{"/n=https://example.com?token=hunter2", "query"},
		{"/n\x00=" + dir, "U+0000"},
	} {
		_, err := Parse(test.text, Options{})
		if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Parse(%q): %v; want an error that says %q", test.text, err, test.says)
		}
	}
	if _, err := Parse("/n=http://localhost:1", Options{Development: true}); err != nil {
		t.Errorf("plain http in development: %v", err)
	}
}

// FuzzParse: any text is a mount or an error, and no mount is outside of the tree.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"/n=.", "/n=.:ro", "/=https://h/a", "/../n=.", "n", "/n=https://u:p@h", "/a\\b=."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text, Options{})
		if err != nil {
			return
		}
		tree, err := vfs.New(vfs.Options{Mounts: []vfs.Mount{m}})
		if err != nil {
			t.Fatalf("%q is parsed and can't be mounted: %v", text, err)
		}
		if err := tree.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
