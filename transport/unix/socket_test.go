package unix

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
)

// watched is a daemon in a directory of its own that checks the name of its socket all the time.
func watched(t *testing.T) (*daemon, *testkit.Notes) {
	t.Helper()
	dir := filepath.Join(shortDir(t), "kernos")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := new(testkit.Notes)
	d := startAt(t, filepath.Join(dir, "a.sock"), Info{}, kerneltest.Around(t, nil, introspect.Module), &Options{Log: slog.New(slog.NewTextHandler(log, nil))},
		func(s *Server) { s.watchEvery = time.Millisecond })
	return d, log
}

// reached reports whether the daemon can be found, and is known to run.
func (d *daemon) reached() bool {
	c, err := new(Dialer).Dial(d.t.Context(), d.path)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	info, running := Inspect(d.path)
	if !running || info.PID != os.Getpid() {
		return false
	}
	p := newPeer(d.t, c)
	p.say(ping("1"))
	return p.hear() == pong("1")
}

func TestServeMakesItsSocketAgainIfSomethingRemovesIt(t *testing.T) {
	d, log := watched(t)
	before := d.dial()
	aside := filepath.Join(filepath.Dir(filepath.Dir(d.path)), "aside") // what is moved to or from it is there or gone at once
	for name, sweep := range map[string]func() error{
		"the socket":    func() error { return os.Remove(d.path) },
		"the lock":      func() error { return os.Remove(lockName(d.path)) },
		"both":          func() error { return errors.Join(os.Remove(d.path), os.Remove(lockName(d.path))) },
		"the directory": func() error { return errors.Join(os.Rename(filepath.Dir(d.path), aside), os.RemoveAll(aside)) },
		"a file is there": func() error {
			return errors.Join(os.WriteFile(aside, nil, 0o600), os.Rename(aside, d.path))
		},
		"another socket is there": func() error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: aside, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return errors.Join(l.Close(), os.Rename(aside, d.path))
		},
	} {
		if err := sweep(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		testkit.Until(t, "it is found again after "+name, d.reached)
		if stat, err := os.Lstat(d.path); err != nil || stat.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%s: %v, %v", name, stat, err)
		}
		if stat, err := os.Lstat(filepath.Dir(d.path)); err != nil || stat.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, stat, err)
		}
	}
	before.say(ping("1")) // connections are not touched
	before.want(pong("1"))
	if !strings.Contains(log.String(), "it was made again") {
		t.Errorf("the log says %s", log)
	}
	d.stop()
	if err := d.ended(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// If it can't be made, that is said once, and tried on.
func TestASocketThatCantBeMadeAgainIsTriedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := shortDir(t)
		dir := filepath.Join(base, "kernos")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(filepath.Join(dir, "s"), Info{})
		if err != nil {
			t.Fatal(err)
		}
		log := new(testkit.Notes)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.watchNames(ctx, time.Second, slog.New(slog.NewTextHandler(log, nil)))
		}()
		time.Sleep(10*time.Second + time.Second/2) // between two checks
		if log.String() != "" {
			t.Errorf("all is well, and it says %s", log)
		}
		if err := os.RemoveAll(base); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := strings.Count(log.String(), "can't be made again"); n != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("it says %s", log)
		}
		if err := os.Mkdir(base, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := strings.Count(log.String(), "it was made again"); n != 1 || !l.socket.intact() {
			t.Errorf("it says %s", log)
		}
		stop()
		<-ended
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A process that has the new lock is left alone, and succeeded when it is gone.
func TestTheOwnerOfTheNewLockIsLeftAlone(t *testing.T) {
	l, err := Listen(filepath.Join(shortDir(t), "s"), Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := errors.Join(os.Remove(l.Path()), os.Remove(lockName(l.Path()))); err != nil {
		t.Fatal(err)
	}
	other, err := Listen(l.Path(), Info{PID: 42})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.restore()
	if running, ok := errors.AsType[*Running](err); !ok || running.Info.PID != 42 || !other.socket.intact() {
		t.Errorf("got %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if restored, err := l.restore(); !restored || err != nil || !l.socket.intact() {
		t.Errorf("got %t, %v", restored, err)
	}
	if info, running := Inspect(l.Path()); !running || info.PID != os.Getpid() {
		t.Errorf("got %+v, %t", info, running)
	}
}

func TestInspectKnowsThatTheEndHasBegun(t *testing.T) {
	leave := make(chan struct{})
	begun, _, syscalls := waiting(leave)
	d := start(t, kerneltest.Around(t, nil, introspect.Module, syscalls...), nil)
	d.dial().say(ask("c", "command", "Test.Change", `1`))
	arrives(t, "it runs", begun)
	if info, running := Inspect(d.path); !running || info.Stopping {
		t.Errorf("got %+v, %t", info, running)
	}
	d.stop()
	testkit.Until(t, "the socket is gone", func() bool { return !exists(d.path) })
	if info, running := Inspect(d.path); !running || !info.Stopping || info.PID != os.Getpid() {
		t.Errorf("got %+v, %t", info, running)
	}
	_, err := Listen(d.path, Info{})
	if _, ok := errors.AsType[*Running](err); !ok || !strings.HasSuffix(err.Error(), "it is about to end") {
		t.Errorf("got %v", err)
	}
	close(leave)
	if err := d.ended(); err != nil {
		t.Error(err)
	}
}
