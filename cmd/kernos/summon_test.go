package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatADaemonSaysBeforeItServes(t *testing.T) {
	for said, want := range map[string]string{
		"":                                    "",
		"kernos: no\n":                        "no",
		"a warning\nkernos: no:\n\n  and why": "no:\nand why",
		"panic: oh\nexit status 2\n":          "exit status 2",
	} {
		if text, ready := listen(strings.NewReader(said)); ready || text != want {
			t.Errorf("%q: %q, %t", said, text, ready)
		}
	}
	if text, ready := listen(strings.NewReader("a warning\n" + readiness + "\n")); !ready || text != "" {
		t.Errorf("%q, %t", text, ready)
	}
}

// Whoever finds the store damaged is told which file is, and what to do.
func TestADaemonWithADamagedStoreSaysSo(t *testing.T) {
	h := newHouse(t)
	if _, notes, status := h.run("", "memory", "set", "--key", "/k", "--value", "1"); status != 0 {
		t.Fatalf("status %d: %s", status, notes)
	}
	if _, notes, status := h.run("", "stop"); status != 0 {
		t.Fatalf("status %d: %s", status, notes)
	}
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
