package fence_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kernos/internal/fence"
)

// world is a private directory with a file, and one beside it.
func world(t testing.TB) (private, beside string) {
	t.Helper()
	dir := t.TempDir()
	private, beside = filepath.Join(dir, "home"), filepath.Join(dir, "files")
	for _, d := range []string{filepath.Join(private, "origins", "one"), beside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{filepath.Join(private, "token"), filepath.Join(private, "origins", "one", "key"), filepath.Join(beside, "notes")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, beside
}

func TestWhatIsPrivate(t *testing.T) {
	private, beside := world(t)
	if err := os.Link(filepath.Join(private, "token"), filepath.Join(beside, "hard")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(private, "token"), filepath.Join(beside, "soft")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		filepath.Join(private, "token"):                 fence.ErrPrivate,
		filepath.Join(private, "origins", "one", "key"): fence.ErrPrivate,
		filepath.Join(beside, "hard"):                   fence.ErrPrivate,
		filepath.Join(beside, "soft"):                   fence.ErrPrivate,
		filepath.Join(beside, "notes"):                  nil,
	} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := (fence.Fence{private, filepath.Join(private, "absent")}).Check(f, name); !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		_ = f.Close()
	}
}

func TestAFileThatIsExchanged(t *testing.T) {
	private, beside := world(t)
	name := filepath.Join(beside, "notes")
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(os.Remove(name), os.WriteFile(name, []byte("other"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := (fence.Fence{private}).Check(f, name); !errors.Is(got, fence.ErrMoved) {
		t.Errorf("got %v", got)
	}
}

func BenchmarkCheck(b *testing.B) {
	private, beside := world(b)
	name := filepath.Join(beside, "notes")
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if err := (fence.Fence{private}).Check(f, name); err != nil {
			b.Fatal(err)
		}
	}
}
