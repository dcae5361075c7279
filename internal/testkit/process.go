package testkit

import (
	"bufio"
	"io"
	"os/exec"
	"testing"
)

// Piped starts a process, and returns its input and its output. A process that hasn't ended at the end of
// the test is killed.
func Piped(t testing.TB, c *exec.Cmd) (in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _, _ = in.Close(), c.Process.Kill(), c.Wait()
	})
	return in, bufio.NewReader(output)
}
