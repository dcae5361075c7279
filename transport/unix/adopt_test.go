package unix

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
)

// kept is a socket that a service manager listens on, and keeps. pass returns it as a process gets it.
func kept(t *testing.T, path string) (pass func() *net.UnixListener) {
	t.Helper()
	manager, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	manager.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = manager.Close() })
	return func() *net.UnixListener {
		t.Helper()
		file, err := manager.File()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		l, err := net.FileListener(file)
		if err != nil {
			t.Fatal(err)
		}
		return l.(*net.UnixListener)
	}
}

// What connects while no daemon runs, or while one ends, is served by the next one.
func TestAnAdoptedSocketOutlivesTheDaemon(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	pass := kept(t, path)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	early := &Conn{dialSocket(t, path)}
	var late *Conn
	for i, waiting := range []func() *Conn{func() *Conn { return early }, func() *Conn { return late }} {
		l, err := Adopt(pass(), path, Info{})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%v, %v", info, err)
		}
		d := serveOn(t, l, kerneltest.Around(t, nil, introspect.Module), nil)
		p := newPeer(t, waiting())
		p.say(ping("1"))
		p.want(pong("1"))
		d.stop()
		if err := d.ended(); err != nil {
			t.Errorf("daemon %d: %v", i, err)
		}
		if _, running := Inspect(path); running {
			t.Error("the lock is held")
		}
		late = &Conn{dialSocket(t, path)} // and no daemon runs
	}
}

func dialSocket(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.UnixConn)
}

func TestASocketAtAnotherPathIsNotAdopted(t *testing.T) {
	dir := shortDir(t)
	pass := kept(t, filepath.Join(dir, "a"))
	_, err := Adopt(pass(), filepath.Join(dir, "b"), Info{})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "a")+", and clients connect to "+filepath.Join(dir, "b")) {
		t.Errorf("got %v", err)
	}
}

func TestOneDaemonAdoptsASocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	pass := kept(t, path)
	first, err := Adopt(pass(), path, Info{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Adopt(pass(), path, Info{})
	if running, ok := errors.AsType[*Running](err); !ok || running.Info.PID != os.Getpid() {
		t.Errorf("got %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

// If something removes the name of an adopted socket, the daemon makes a socket of its own, and removes that at its end.
func TestAnAdoptedSocketThatIsRemovedIsMadeAgain(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := Adopt(kept(t, path)(), path, Info{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if restored, err := l.restore(); !restored || err != nil || l.socket.kept() {
		t.Errorf("%t, %v", restored, err)
	}
	dialSocket(t, path)
	if err := l.Close(); err != nil || exists(path) {
		t.Errorf("it is still there: %v", err)
	}
}

// Root at the other end is systemd only if the socket belongs to this user.
func TestRootIsTrustedForASocketOfThisUser(t *testing.T) {
	path := filepath.Join(testkit.ShortDir(t), "s")
	kept(t, path)
	d := &Dialer{}
	for uid, want := range map[int]bool{0: true, 12345: os.Geteuid() == 12345} {
		d.peer = func(*net.UnixConn) (int, error) { return uid, nil }
		c, err := d.open(t.Context(), path)
		if got := err == nil; got != want {
			t.Errorf("with user %d at the other end: %v", uid, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
	if keptByInit(0, path+"-gone") || keptByInit(12345, path) {
		t.Error("a socket that isn't there, or isn't root's, is taken for that of systemd")
	}
}
