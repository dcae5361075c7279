package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	f := &logFile{rotated: d}
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
	file := openLog(path, slog.LevelInfo, nil)
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
	file := openLog(path, slog.LevelInfo, &people)
	if file.place != "standard error" || !strings.Contains(people.String(), "can't be kept in a file") {
		t.Errorf("it is in %s: %s", file.place, &people)
	}
	beside := file.With("who", "somebody")
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
	beside.Warn("for everybody")
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		text         string
		said, logged int
	}{
		{"msg=before", 1, 0}, {`"still before"`, 1, 0}, {"not yet", 1, 0}, {"until now", 0, 1},
		{"after", 0, 1}, {"for everybody", 1, 1}, {"somebody", 4, 2},
	} {
		said, logged := strings.Count(people.String(), c.text), strings.Count(read(t, path), c.text)
		if said != c.said || logged != c.logged {
			t.Errorf("%s was said %d times and logged %d times; want %d and %d", c.text, said, logged, c.said, c.logged)
		}
	}
}
