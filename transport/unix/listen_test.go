package unix_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/transport/unix"
)

func TestListenSaysWhoListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if _, ok := unix.Inspect(path); ok {
		t.Error("a daemon is found before one listens")
	}
	want := unix.Info{PID: 42, Version: "1.2.3", Started: time.Unix(1735000000, 0).UTC(), Auth: true, Home: "/h", Origin: "o", Keys: []string{"SHA256:x"}}
	l, err := unix.Listen(path, want)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := unix.Inspect(path); !ok || got.PID != want.PID || !got.Started.Equal(want.Started) || !got.Auth || got.Home != "/h" || got.Origin != "o" || got.Keys[0] != "SHA256:x" {
		t.Errorf("got %+v, %t", got, ok)
	}
	for name, mode := range map[string]os.FileMode{path: os.ModeSocket | 0o600, path + ".lock": 0o600} {
		if stat, err := os.Stat(name); err != nil || stat.Mode() != mode {
			t.Errorf("%s has mode %v, %v", name, stat.Mode(), err)
		}
	}
	_, err = unix.Listen(path, unix.Info{})
	if running, ok := errors.AsType[*unix.Running](err); !ok || running.Info.PID != 42 || !strings.Contains(err.Error(), "process 42, version 1.2.3, since 2024-12-24T") {
		t.Errorf("a second one got %v", err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Errorf("closing: %v", err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
	if _, ok := unix.Inspect(path); ok {
		t.Error("a daemon is found after it has ended")
	}
	again, err := unix.Listen(path, unix.Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if got, _ := unix.Inspect(path); got.PID != os.Getpid() || got.Started.IsZero() || again.Path() != path || again.Info().PID != got.PID {
		t.Errorf("got %+v", got)
	}
}

// A process that is killed leaves its socket and its lock file behind, but not its lock.
func TestListenTakesOverWhatWasLeftBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	if err := os.WriteFile(path+".lock", []byte(`{"pid":999999}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := unix.Inspect(path); ok {
		t.Error("a dead process listens")
	}
	l, err := unix.Listen(path, unix.Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// What cleans up temporary directories may take the lock file away, but the socket is alive.
func TestListenDoesNotTakeOverASocketThatIsAlive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := unix.Listen(path, unix.Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	_, err = unix.Listen(path, unix.Info{})
	if _, ok := errors.AsType[*unix.Running](err); !ok {
		t.Errorf("got %v", err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("the socket is gone: %v", err)
	} else {
		_ = c.Close()
	}
}

func TestListenHasOneWinnerAmongThoseWhoStartTogether(t *testing.T) {
	const rounds, starters = 50, 8
	path := filepath.Join(t.TempDir(), "s")
	for round := range rounds {
		if round%2 == 1 { // something was left behind
			if dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
				dead.SetUnlinkOnClose(false)
				_ = dead.Close()
			}
		}
		var starting sync.WaitGroup
		won := make(chan *unix.Listener, starters)
		for range starters {
			starting.Go(func() {
				l, err := unix.Listen(path, unix.Info{})
				if err == nil {
					won <- l
				} else if _, ok := errors.AsType[*unix.Running](err); !ok {
					t.Errorf("got %v", err)
				}
			})
			starting.Go(func() { unix.Inspect(path) }) // a reader must not keep a daemon from winning
		}
		starting.Wait()
		close(won)
		if len(won) != 1 {
			t.Fatalf("round %d has %d winners", round, len(won))
		}
		for l := range won {
			if c, err := net.Dial("unix", path); err != nil {
				t.Errorf("the winner does not answer: %v", err)
			} else {
				_ = c.Close()
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestListenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if _, err := unix.Listen(filepath.Join(dir, strings.Repeat("x", 200)), unix.Info{}); err == nil || !strings.Contains(err.Error(), "use a shorter one") {
		t.Errorf("a long path: %v", err)
	}
	if _, err := unix.Listen(filepath.Join(dir, "missing", "s"), unix.Info{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	link := filepath.Join(dir, "s.lock")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Listen(filepath.Join(dir, "s"), unix.Info{}); err == nil {
		t.Error("a lock file that is a link is followed")
	}
}
