package pebble

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kernos/internal/testkit"
	"kernos/store"
)

// The test binary runs itself as one of these processes.
const childVariable = "PEBBLE_TEST_CHILD"

var children = map[string]func(dir string){"hold": hold, "write": write}

// child starts this process once more, for one kind of work, and returns its output.
func child(t *testing.T, what, dir string) (*bufio.Reader, *exec.Cmd) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVariable+"="+what, childVariable+"_DIR="+dir)
	c.Stderr = os.Stderr
	_, out := testkit.Piped(t, c)
	return out, c
}

// childOpen opens the store in a child, which ends when its parent does.
func childOpen(dir string) *Engine {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	e, err := Open(dir, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	return e
}

func hold(dir string) {
	childOpen(dir)
	fmt.Println("open")
	select {}
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("the child said nothing: %v", err)
	}
	return strings.TrimSpace(s)
}

func TestTheLockNamesItsOwner(t *testing.T) {
	dir := t.TempDir()
	out, c := child(t, "hold", dir)
	line(t, out)
	_, err := Open(dir, nil)
	fails(t, err, 503, dir, filepath.Base(os.Args[0]), fmt.Sprintf("process %d", c.Process.Pid), "since 2", "KERNOS_HOME")

	// The lock of a process that was killed is free.
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	e := mustOpen(t, dir, nil)
	set(t, e, "m/1", "one")
}

func TestASecondEngineIsRefused(t *testing.T) {
	dir := t.TempDir()
	e := mustOpen(t, dir, nil)
	_, err := Open(dir, nil)
	fails(t, err, 503, "in use by", fmt.Sprintf("process %d", os.Getpid()))
	set(t, e, "m/1", "one") // the first one does not notice
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got := scanAll(t, mustOpen(t, dir, nil)); got["m/1"] != "one" {
		t.Errorf("got %v", got)
	}
}

func TestHeldBySaysWhoAndWhere(t *testing.T) {
	dir := t.TempDir()
	if got, held := HeldBy(dir); held {
		t.Errorf("before there is a store: %+v", got)
	}
	e := mustOpen(t, dir, &Options{Address: "/run/some where.sock"})
	got, held := HeldBy(dir)
	if !held || got.PID != os.Getpid() || got.Address != "/run/some where.sock" || !strings.HasPrefix(got.Command, filepath.Base(os.Args[0])) || got.Since.IsZero() {
		t.Errorf("got %+v, %t", got, held)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got, held := HeldBy(dir); held {
		t.Errorf("after it is closed: %+v", got)
	}
	// What a process has left that was killed says nothing.
	stale := Holder{PID: os.Getpid(), Command: "kernos serve", Since: time.Now(), Address: "/run/x.sock"}
	if err := os.WriteFile(filepath.Join(dir, lockName), stale.encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, held := HeldBy(dir); held {
		t.Errorf("after it was killed: %+v", got)
	}
}

func FuzzOwner(f *testing.F) {
	f.Add(Holder{PID: 4711, Command: "kernos pipe", Since: time.Unix(1763200800, 0)}.encode())
	f.Add([]byte("pid 0\nsince x\ncommand \x1b[2J\n"))
	f.Add([]byte("pid -1\n"))
	f.Add(Holder{PID: 4711, Command: "kernos serve", Since: time.Unix(1763200800, 0), Address: "/run/a b\n.sock"}.encode())
	f.Fuzz(func(t *testing.T, text []byte) {
		o, ok := parseHolder(text)
		if !ok {
			return
		}
		if again, ok := parseHolder(o.encode()); !ok || again.PID != o.PID || again.Command != o.Command || again.Address != o.Address || !again.Since.Equal(o.Since) {
			t.Errorf("%+v became %+v", o, again)
		}
		if !printable(o.Command) {
			t.Errorf("the command %q", o.Command)
		}
	})
}

// write counts for ever and says what is durable.
func write(dir string) {
	e := childOpen(dir)
	value := strings.Repeat("x", 2000)
	type step struct {
		n int
		c *store.Commit
	}
	steps := make(chan step, 100)
	go func() {
		for n := 1; ; n++ {
			var b store.Batch
			b.Set(fmt.Appendf(nil, "m/%09d", n), fmt.Append(nil, n, value))
			if n > 3000 {
				b.Delete(fmt.Appendf(nil, "m/%09d", n-3000))
			}
			c, err := e.Apply(&b)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(4)
			}
			steps <- step{n, c}
		}
	}()
	for s := range steps {
		if err := wait(s.c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(4)
		}
		fmt.Println(s.n)
	}
}
