package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/internal/exit"
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

// Where the tree of files comes from is shown, and doesn't depend on where a command is used.
func TestADaemonShowsTheDirectoriesOfItsTree(t *testing.T) {
	h := newHouse(t)
	here, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := "  os://        " + filepath.Join(h.home, "os") + "\n"
	shown := func(command string, wants ...string) {
		t.Helper()
		out, notes, status := h.run("", "status")
		for _, want := range wants {
			if status != 0 || !strings.Contains(out, want) {
				t.Errorf("%s: status %d: %s%s; want %q", command, status, out, notes, want)
			}
		}
		if len(wants) < 2 && strings.Contains(out, here) {
			t.Errorf("%s: %s has the directory of the command", command, out)
		}
		if _, notes, status := h.run("", "stop"); status != 0 {
			t.Errorf("%s: status %d: %s", command, status, notes)
		}
	}
	c := h.command("pipe")
	c.Dir, c.Stdin = here, strings.NewReader(ping)
	c.Env = append(c.Env, "PWD="+here, "KERNOS_DIRECTORY="+here)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	shown("pipe", own)
	once := "  directory    " + here + " (its folder os is a part of os://, for this run)\n"
	s := h.serve("--directory", here)
	shown("serve", own, once)
	if status := s.wait(); status != 0 || !strings.Contains(s.notes.String(), "\n  directory "+here+" (its folder os") {
		t.Errorf("status %d: %s", status, s.notes)
	}
	h.must("", "trust", here)
	h.must(ping)
	shown("trust", own, "  trusted      "+here+" (its folder os is a part of os://)\n")
	h.must("", "untrust", here)
	s = h.serve("--mount", "/="+here)
	if out, _, status := h.run("", "status"); status != 0 || strings.Contains(out, "os://   ") {
		t.Errorf("with a root of its own: status %d: %s", status, out)
	}
	if _, notes, status := h.run("", "stop"); status != 0 || s.wait() != 0 || strings.Contains(s.notes.String(), "directory") {
		t.Errorf("status %d: %s%s", status, notes, s.notes)
	}
	for _, wrong := range []string{filepath.Join(here, "nosuch"), filepath.Join(h.home, "config.yaml")} {
		if _, notes, status := h.run("", "serve", "--directory", wrong); status != exit.Usage || !strings.HasPrefix(notes, "kernos: --directory: ") || !strings.Contains(notes, wrong) || !strings.Contains(notes, "; name ") {
			t.Errorf("status %d: %s", status, notes)
		}
	}
}
