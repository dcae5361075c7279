package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kernos/cmd/kernos/server"
	"kernos/internal/testkit"
)

// measured is the program kernos that writes, when it ends, how many kilobytes of memory it had at most
// into the file that a variable names. On systems that don't tell, that is nothing.
const (
	measured     = "kernos-measured"
	peakVariable = "KERNOS_TEST_PEAK"
)

func measure() {
	server.SetGarbage(server.StartGarbage)
	code := run(context.Background(), os.Args[1:])
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	size, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if err := os.WriteFile(os.Getenv(peakVariable), []byte(size), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 99
	}
	os.Exit(code)
}

// A value of almost 64 MB goes in and out as a stream: the memory of the command doesn't grow with it.
// The race detector takes ten times as long and memory of its own, so that with it the values are smaller,
// and nothing is measured.
func TestLargeValuesAreStreamed(t *testing.T) {
	h := newHouse(t)
	h.serve()
	h.binary = measured
	dir := t.TempDir()
	peak := filepath.Join(dir, "peak")
	// What a command holds is measured, and not how late a busy machine collects its garbage.
	h.env = append(h.env, peakVariable+"="+peak, "GOGC=20")
	large := filepath.Join(dir, "large")
	repeated := 3 << 20 // 54 MB, and 60 MB as JSON
	if testkit.Race {
		repeated >>= 4
	}
	text := bytes.Repeat([]byte("0123456789abcdé\"\n"), repeated)
	if err := os.WriteFile(large, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var most int64
	run := func(out string, args ...string) {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, out))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		c := h.command(args...)
		var notes strings.Builder
		c.Stdout, c.Stderr = f, &notes
		if err := c.Run(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, notes.String())
		}
		size, err := os.ReadFile(peak)
		if err != nil {
			t.Fatal(err)
		}
		kilobytes, _ := strconv.ParseInt(string(size), 10, 64)
		most = max(most, kilobytes<<10)
	}
	same := func(name string, want []byte) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s has %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	run("small", "memory", "get", "proc/version")
	small := most
	run("set", "memory", "set", "a", "value=@"+large)
	run("cat", "cat", "a")
	same("cat", text)
	// The other commands get a quarter of it, which is still more than a command may take.
	repeated /= 4
	text = text[:len(text)/4]
	if err := os.WriteFile(large, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run("cp", "cp", large, "memory:b")
	run("get", "memory", "get", "b", "-r")
	run("cp", "cp", "memory:b", filepath.Join(dir, "copy"))
	for _, name := range []string{"get", "copy"} {
		same(name, text)
	}
	// JSON that isn't a text: a list of numbers, which cat indents.
	items := repeated * 5 / 3
	list := "[1" + strings.Repeat(",2", items) + "]"
	if err := os.WriteFile(large, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	run("set", "memory", "set", "c", "value:=@"+large)
	run("getc", "memory", "get", "c")
	same("getc", []byte(list+"\n"))
	run("catc", "cat", "c")
	same("catc", []byte("[\n  1"+strings.Repeat(",\n  2", items)+"\n]\n"))
	if grown := most - small; grown > 12<<20 && !testkit.Race {
		t.Errorf("a command for a value of %d MB or more takes %d MB more than one for a small value, which takes %d MB", len(text)>>20, grown>>20, small>>20)
	}

	// More than fits is refused, and nothing is changed.
	if err := os.WriteFile(large, bytes.Repeat([]byte("x"), 64<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"memory", "set", "c", "value=@" + large}, {"cp", large, "memory:c"}, {"cp", large, "os://large"}} {
		_, notes, status := h.run("", args...)
		if status == 0 || !strings.Contains(notes, "more than 64 MB") {
			t.Errorf("%v: status %d: %s", args, status, notes)
		}
	}
}
