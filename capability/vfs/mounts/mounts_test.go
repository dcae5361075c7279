package mounts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/capability/vfs"
	"kernos/capability/vfs/mounts"
	"kernos/capability/vfs/vfstest"
)

// folderOf is a root with the folder os of a directory.
func folderOf(dir string, private ...string) (vfs.Mount, error) {
	return mounts.Root(func() []mounts.Folder {
		return []mounts.Folder{{Path: filepath.Join(dir, "os"), New: true, Private: private}}
	})
}

func TestTheRootOfOneFolder(t *testing.T) {
	dir := t.TempDir()
	m, err := folderOf(dir)
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
	_, err = tree.Read(t.Context(), "os://unknown/resource.md")
	if want := "VFS fetch failed: no matching mount for os:///unknown/resource.md and root is undefined"; err == nil || err.Error() != want {
		t.Errorf("a file that the greeting doesn't have: %v, want %s", err, want)
	}

	vfstest.WantCode(t, "deleting the greeting", tree.Delete(t.Context(), "os://greeting.md", false), 403)

	// A folder that is made later takes its place, and so does another one.
	for _, text := range []string{"mine", "another"} {
		vfstest.Put(t, dir, map[string]string{"os/agent.md": text})
		if f, err := tree.Read(t.Context(), "os://agent.md"); err != nil || string(f.Data) != text {
			t.Errorf("read %q, %v", f.Data, err)
		}
		if _, err := tree.Read(t.Context(), "os://greeting.md"); err == nil {
			t.Error("the greeting is still there")
		}
		if _, err := tree.Write(t.Context(), "os://notes/new.md", []byte(text), ""); err != nil {
			t.Errorf("the owner can't write: %v", err)
		}
		if written, err := os.ReadFile(filepath.Join(dir, "os/notes/new.md")); err != nil || string(written) != text {
			t.Errorf("written is %q, %v", written, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "os")); err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Read(t.Context(), "os://greeting.md"); err != nil {
			t.Errorf("without the folder: %v", err)
		}
	}
}

// The first file that is written makes the folder.
func TestTheFirstWriteMakesTheRoot(t *testing.T) {
	dir := t.TempDir()
	m, err := folderOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{m}})
	if _, err := tree.Write(t.Context(), "os://a.md", []byte("a"), ""); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "os", "a.md")); err != nil || string(text) != "a" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// A refusal names the mount, and what would change it.
func TestWritesThatAreRefused(t *testing.T) {
	file := t.TempDir()
	vfstest.Put(t, file, map[string]string{"os": "a file"})
	home := t.TempDir()
	foreign := t.TempDir()
	vfstest.Put(t, foreign, map[string]string{"os/a": "1"})
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(foreign, "os"), 4711, 4711); err != nil {
			t.Fatal(err)
		}
	}
	readOnly := t.TempDir()
	for name, test := range map[string]struct {
		mount func() (vfs.Mount, error)
		says  string
	}{
		"a file":                 {func() (vfs.Mount, error) { return folderOf(file) }, "the mount / has no folder, since " + file + "/os is a file; start the daemon with --mount /=DIRECTORY"},
		"the home":               {func() (vfs.Mount, error) { return folderOf(home, home) }, "use files outside of KERNOS_HOME"},
		"a directory that isn't": {func() (vfs.Mount, error) { return folderOf(home + "/gone") }, "can't be made (no such file or directory); start the daemon with --mount /=DIRECTORY"},
		"another user's":         {func() (vfs.Mount, error) { return folderOf(foreign) }, "(the mount / is r--: " + foreign + "/os belongs to another user; start the daemon with --mount /=" + foreign + "/os to write there)"},
		"read-only":              {func() (vfs.Mount, error) { return mounts.Parse("/="+readOnly+":ro", mounts.Options{}) }, "(the mount / is r--: start the daemon without :ro in --mount …=" + readOnly + ":ro)"},
	} {
		if name == "another user's" && os.Geteuid() != 0 {
			continue // only root can make one
		}
		m, err := test.mount()
		if err != nil {
			t.Fatal(err)
		}
		_, err = vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{m}}).Write(t.Context(), "os://a.md", nil, "")
		vfstest.WantCode(t, name, err, 403)
		if err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARootThatIsPrivate(t *testing.T) {
	home := t.TempDir()
	vfstest.Put(t, home, map[string]string{"origins/mine/os/file": "SECRET"})
	m, err := folderOf(filepath.Join(home, "origins", "mine"), home)
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
		{"/n=" + dir, "/n", "rw-", "directory " + dir},
		{"/n=" + dir + ":ro", "/n", "r--", "directory " + dir},
		{"/n=" + dir + ":ro:noexec", "/n", "r--", "directory " + dir},
		{"/n=" + dir + ":noexec", "/n", "rw-", "directory " + dir},
		{"/n=" + dir + ":exec", "/n", "r-x", "directory " + dir},
		{"/n=" + dir + ":ro:exec", "/n", "r-x", "directory " + dir},
		{"/=" + dir + "/a=b", "/", "rw-", "directory " + dir + "/a=b"},
		{"/n=" + dir + "/c:ro:ro", "/n", "r--", "directory " + dir + "/c:ro"},
		{"/s=https://example.com/a", "/s", "r--", "server https://example.com/a/"},
		{"/s=https://example.com:ro", "/s", "r--", "server https://example.com/"},
	} {
		m, err := mounts.Parse(test.text, mounts.Options{})
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
		{"/n=" + dir + ":exec:noexec", "contradicts"},
		{"/n=" + dir + ":exec:tokens=write", "contradicts"},
		{"/n=" + filepath.Join(dir, "nothing"), "no such file"},
		{"/n=" + filepath.Join(dir, "file"), "directory"},
		{"/n=http://example.com", "not encrypted"},
		{"/n=ftp://example.com", "not ftp"},
		{"/n=https://", "https://host/path"},
		{"/n=https://me:hunter2@example.com", "user name"},
		{"/n=https://example.com?token=hunter2", "query"},
		{"/n\x00=" + dir, "U+0000"},
	} {
		_, err := mounts.Parse(test.text, mounts.Options{})
		if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Parse(%q): %v; want an error that says %q", test.text, err, test.says)
		}
	}
	if _, err := mounts.Parse("/n=http://localhost:1", mounts.Options{Development: true}); err != nil {
		t.Errorf("plain http in development: %v", err)
	}
}

// FuzzParse: any text is a mount or an error, and no mount is outside of the tree.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"/n=.", "/n=.:ro", "/=https://h/a", "/../n=.", "n", "/n=https://u:p@h", "/a\\b=."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := mounts.Parse(text, mounts.Options{})
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
