package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/internal/testkit"
)

// disk is a file on a disk with so much room.
type disk struct {
	bytes.Buffer
	room int
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func (d *disk) Close() error { return nil }

// A line that a full disk cuts off spoils no other.
func TestALineOfTheLogBeginsOnItsOwn(t *testing.T) {
	d := new(disk)
	f := &LogFile{rotated: d}
	for _, c := range []struct {
		room int // more of it
		line string
		n    int
		fits bool
	}{
		{10, "one\n", 4, true},
		{0, "twotwotwo\n", 6, false},
		{0, "three\n", 0, false},
		{1, "four\n", 0, false}, // the end of the second
		{0, "five\n", 0, false},
		{7, "six\n", 4, true},
		{0, "seven\n", 3, false},
		{100, "eight\n", 6, true},
		{0, "nine\n", 5, true},
	} {
		d.room += c.room
		if n, err := f.Write([]byte(c.line)); n != c.n || (err == nil) != c.fits {
			t.Errorf("%q: wrote %d, %v", c.line, n, err)
		}
	}
	if want := "one\ntwotwo\nsix\nsev\neight\nnine\n"; d.String() != want {
		t.Errorf("got %q", d.String())
	}
}

// What another process could not finish is left as it is.
func TestALogGoesOnBehindALineThatIsNotWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernos.log")
	if err := os.WriteFile(path, []byte(`{"half":`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := OpenLog(path, slog.LevelInfo, nil, slog.LevelWarn)
	file.Info("whole")
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	half, whole, _ := strings.Cut(read(t, path), "\n")
	if half != `{"half":` || !json.Valid([]byte(whole)) {
		t.Errorf("got %s and %s", half, whole)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A log whose file can't be opened at first goes there as soon as it can.
func TestALogIsKeptInItsFileLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory can be made there
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kernos.log")
	var people bytes.Buffer
	file := OpenLog(path, slog.LevelInfo, &people, slog.LevelWarn)
	if file.Place != "standard error" || !strings.Contains(people.String(), "can't be kept in a file") {
		t.Errorf("it is in %s: %s", file.Place, &people)
	}
	beside := file.With("who", "anyone")
	retry := func() { file.tried = file.tried.Add(-reopenAfter) }
	beside.Info("before")
	retry()
	beside.Info("still before")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	beside.Info("not yet")
	retry()
	beside.Info("after")
	beside.Warn("for all readers")
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		text         string
		said, logged int
	}{
		{"msg=before", 1, 0}, {`"still before"`, 1, 0}, {"not yet", 1, 0}, {"until now", 0, 1},
		{"after", 0, 1}, {"for all readers", 1, 1}, {"anyone", 4, 2},
	} {
		said, logged := strings.Count(people.String(), c.text), strings.Count(read(t, path), c.text)
		if said != c.said || logged != c.logged {
			t.Errorf("%s was said %d times and logged %d times; want %d and %d", c.text, said, logged, c.said, c.logged)
		}
	}
}

// logFiles returns the log and those that were replaced.
func logFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "kernos*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// entries reads the log and returns how many there are of each number.
func entries(t *testing.T, names []string) map[int]int {
	t.Helper()
	seen := make(map[int]int)
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 || info.Size() > (maxLogSize+1)<<20 {
			t.Errorf("%s has mode %v and %d bytes", name, info.Mode(), info.Size())
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var entry struct {
				Msg string
				N   int
			}
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil || entry.Msg != "it happened" {
				t.Fatalf("%v: %.200s", err, lines.Bytes())
			}
			seen[entry.N]++
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return seen
}

// A log that is large is replaced, nothing of it is lost on the way, and what is old goes.
func TestTheLogIsReplacedWhenItIsLarge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	file := OpenLog(filepath.Join(dir, "kernos.log"), slog.LevelInfo, nil, slog.LevelWarn)
	if file.Place != filepath.Join(dir, "kernos.log") {
		t.Fatalf("the log is at %s", file.Place)
	}
	text := strings.Repeat("x", 10_000)
	n := 0
	write := func(megabytes int) {
		for range megabytes << 20 / len(text) {
			file.Info("it happened", "n", n, "text", text)
			n++
		}
	}
	write(maxLogSize * 5 / 2)
	names := logFiles(t, dir)
	if len(names) != 3 {
		t.Errorf("there are %q", names)
	}
	seen := entries(t, names)
	for i := range n {
		if seen[i] != 1 {
			t.Fatalf("entry %d is there %d times", i, seen[i])
		}
	}
	write(maxLogSize * (maxOldLogs + 1))
	testkit.Until(t, "the oldest are gone", func() bool { return len(logFiles(t, dir)) == 1+maxOldLogs })
	seen = entries(t, logFiles(t, dir))
	if seen[0] != 0 || seen[n-1] != 1 {
		t.Errorf("the oldest entry is there %d times, the newest %d", seen[0], seen[n-1])
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
