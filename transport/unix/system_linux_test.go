package unix

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyWhoHoldsALockIsSeenToHoldIt(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if held, err := holds(os.Getpid(), f); err != nil || held {
		t.Errorf("before it is locked: %t, %v", held, err)
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if held, err := holds(os.Getpid(), f); err != nil || !held {
		t.Errorf("got %t, %v", held, err)
	}
	if held, err := holds(os.Getppid(), f); err != nil || held {
		t.Errorf("another process: %t, %v", held, err)
	}
}

// A process whose number means another one here is not told anything.
func TestTerminateLeavesOtherProcessesAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := Listen(path, Info{PID: os.Getppid()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := Terminate(path, os.Getppid()); err == nil || !strings.Contains(err.Error(), "end it where it runs") {
		t.Errorf("got %v", err)
	}
}

func TestListsLock(t *testing.T) {
	const list = "1: POSIX  ADVISORY  WRITE 7 fe:00:10 0 EOF\n" +
		"2: FLOCK  ADVISORY  READ 7 fe:00:11 0 EOF\n" +
		"2: -> FLOCK  ADVISORY  WRITE 7 fe:00:12 0 EOF\n" +
		"3: FLOCK  ADVISORY  WRITE 7 fe:00:13 0 EOF\nnonsense\n4: FLOCK  ADVISORY  WRITE 8 14 0 EOF\n"
	for inode, want := range map[uint64]bool{10: false, 11: false, 12: false, 13: true, 14: false, 3: false} {
		if got, err := listsLock(strings.NewReader(list), 7, inode); err != nil || got != want {
			t.Errorf("%d: %t, %v", inode, got, err)
		}
	}
	if _, err := listsLock(&failing{}, 7, 1); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, os.ErrPermission }
