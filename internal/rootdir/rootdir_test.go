package rootdir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kernos/internal/rootdir"
)

func TestEveryWayOutIsAnEscape(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "here"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, try := range map[string]func() error{
		"open a parent":     func() error { _, err := root.Open("../x"); return err },
		"open by a link":    func() error { _, err := root.Open("away/passwd"); return err },
		"an absolute path":  func() error { _, err := root.Open("/etc/passwd"); return err },
		"rename":            func() error { return root.Rename("here", "../there") },
		"link":              func() error { return root.Link("here", "away/there") },
		"make a directory":  func() error { return root.Mkdir("away/x", 0o700) },
		"remove everything": func() error { return root.RemoveAll("../x") },
	} {
		if err := try(); !rootdir.Escapes(err) {
			t.Errorf("%s: %v is not taken for an escape", name, err)
		}
	}
	if _, err := root.Open("absent"); rootdir.Escapes(err) || rootdir.Escapes(fs.ErrNotExist) || rootdir.Escapes(nil) {
		t.Errorf("%v is taken for an escape", err)
	}
}
