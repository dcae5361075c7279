package unix

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnHTTPSocketIsForItsOwner(t *testing.T) {
	dir, err := os.MkdirTemp("", "kernos") // its name is short, as those of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := Listen(filepath.Join(dir, "a.sock"), Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	path := HTTPPath(l.Path())
	if path != filepath.Join(dir, "a.http.sock") {
		t.Errorf("it is %s", path)
	}
	// One that was left behind is taken over.
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	socket, err := l.ListenOwner(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	who := []int{os.Geteuid() + 1, -1, os.Geteuid()}
	socket.(*ownerListener).peer = func(*net.UnixConn) (int, error) {
		uid := who[0]
		if who = who[1:]; uid < 0 {
			return 0, errors.New("it isn't known")
		}
		return uid, nil
	}
	var clients []net.Conn
	for range 3 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	served, err := socket.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients[:2] {
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("another user gets %d, %v", n, err)
		}
	}
	if _, err := served.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if n, err := clients[2].Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the owner gets %d, %v", n, err)
	}
	if strings.Count(log.String(), "another user was refused") != 2 {
		t.Errorf("the log says %s", &log)
	}
	for _, c := range append(clients, served) {
		_ = c.Close()
	}
	if err := socket.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := l.ListenOwner(filepath.Join(dir, strings.Repeat("x", 200)), nil); err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("a path that is too long: %v", err)
	}
}
