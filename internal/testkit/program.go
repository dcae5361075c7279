package testkit

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Program builds a program of this module as it is shipped, without the race detector, and returns
// its path. Programs that go run has built stay in Go's build cache, so that the tests of all
// packages link a program once.
func Program(t testing.TB, pkg string) string {
	t.Helper()
	for range 2 { // the program that was linked just now isn't where the cache has it
		c := exec.Command("go", "run", "-trimpath", "-exec", "echo", pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		var notes strings.Builder
		c.Stderr = &notes
		out, err := c.Output()
		if err != nil {
			t.Fatalf("build %s: %v\n%s", pkg, err, notes.String())
		}
		path := strings.TrimSpace(string(out))
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatalf("build %s: Go's build cache doesn't keep the program", pkg)
	return ""
}
