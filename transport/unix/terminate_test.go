package unix

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTerminateTellsWhoeverServesTheSocket(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	defer signal.Stop(signals)
	path := filepath.Join(shortDir(t), "s")
	if err := Terminate(path, os.Getpid()); !os.IsNotExist(err) {
		t.Errorf("no process is there: %v", err)
	}
	l, err := Listen(path, Info{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Terminate(path, os.Getpid()); err != nil {
		t.Errorf("got %v", err)
	}
	arrives(t, "the signal comes", signals)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Terminate(path, os.Getpid()); err == nil || !strings.Contains(err.Error(), "end it where it runs") {
		t.Errorf("no process is there any more: %v", err)
	}
}
