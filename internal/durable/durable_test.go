package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kernos/internal/durable"
)

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := durable.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "file")
	for _, text := range []string{"first", "second"} {
		if err := durable.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the file has %q (%v), want %q", got, err, text)
		}
	}
	for name, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %v", name, info, err, want)
		}
	}
}

func TestWhatCouldNotBeWrittenLeavesNothing(t *testing.T) {
	dir, failure := t.TempDir(), errors.New("no more")
	if _, err := durable.Temporary(dir, func(io.Writer) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("the error is %v, want %v", err, failure)
	}
	if err := durable.WriteFile(filepath.Join(dir, "absent", "file"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v, want one of a missing directory", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("the directory has %v (%v), want nothing", names, err)
	}
}

func TestAFileStandsInTheWayOfADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.MakeDir(filepath.Join(path, "dir")); err == nil {
		t.Error("a directory was made beneath a file")
	}
}
