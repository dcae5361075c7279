package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/cmd/kernos/exit"
)

// A command that finds the store damaged reports which file is, and what to do.
func TestADaemonWithADamagedStoreSaysSo(t *testing.T) {
	h := newHouse(t)
	h.must("", "memory", "set", "--key", "/k", "--value", "1")
	h.must("", "stop")
	tables, _ := filepath.Glob(filepath.Join(h.home, "origins", "*", "store", "*.sst"))
	if len(tables) == 0 {
		t.Fatal("the test shows nothing: there is no table")
	}
	for _, table := range tables {
		f, err := os.OpenFile(table, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt(make([]byte, 100), 10)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"memory", "get", "--key", "/k"}, {"serve"}, {"backup", filepath.Join(t.TempDir(), "b")}} {
		_, notes, status := h.run("", args...)
		lines := strings.Split(strings.TrimSpace(notes), "\n")
		last := lines[len(lines)-1]
		if status == 0 || !strings.HasPrefix(last, "kernos: ") || !strings.Contains(last, ".sst is damaged; move the directory away and restore a backup with `kernos restore FILE`") {
			t.Errorf("%v: status %d: %s", args, status, notes)
		}
	}
}

// Where the tree of files comes from is shown, and can be set.
func TestADaemonShowsTheDirectoryOfItsTree(t *testing.T) {
	h := newHouse(t)
	shown := func(command, dir string) {
		t.Helper()
		out, notes, status := h.run("", "status")
		if want := "  directory    " + dir + " (its folder os is os://"; status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d: %s%s", command, status, out, notes)
		}
		if out, _, _ := h.run("", "status", "--json"); !strings.Contains(out, `"directory": "`+dir+`"`) {
			t.Errorf("%s: %s", command, out)
		}
		if _, notes, status := h.run("", "stop"); status != 0 {
			t.Errorf("%s: status %d: %s", command, status, notes)
		}
	}
	// It is where the command that started the daemon was.
	here, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := h.command("pipe")
	c.Dir, c.Stdin = here, strings.NewReader(ping)
	c.Env = append(c.Env, "PWD="+here)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	shown("pipe", here)
	// What is set comes first.
	config := filepath.Join(h.home, "config.yaml")
	files := filepath.Join(h.home, "files")
	if err := errors.Join(os.Mkdir(files, 0o700), os.WriteFile(config, []byte("directory: files\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	h.must(ping)
	shown("pipe with a configuration", files)
	s := h.serve("--directory", here)
	shown("serve", here)
	if status := s.wait(); status != 0 || !strings.Contains(s.notes.String(), "\n  directory "+here+" (its folder os is os://") {
		t.Errorf("status %d: %s", status, s.notes)
	}
	s = h.serve("--mount", "/="+here)
	if out, _, status := h.run("", "status"); status != 0 || strings.Contains(out, "directory") {
		t.Errorf("with a root of its own: status %d: %s", status, out)
	}
	if _, notes, status := h.run("", "stop"); status != 0 || s.wait() != 0 || strings.Contains(s.notes.String(), "directory") {
		t.Errorf("status %d: %s%s", status, notes, s.notes)
	}
	for _, wrong := range []string{filepath.Join(here, "nosuch"), config} {
		if _, notes, status := h.run("", "serve", "--directory", wrong); status != exit.Usage || !strings.HasPrefix(notes, "kernos: --directory: ") || !strings.Contains(notes, wrong) || !strings.Contains(notes, "; name ") {
			t.Errorf("status %d: %s", status, notes)
		}
	}
}
