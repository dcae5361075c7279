//go:build linux && amd64 && mcpsuites

package mcp

import (
	"os"
	"strings"
	"testing"
)

// TestMCPHostSuites runs the scenarios for clients of the protocol's own suites against Kernos as a host.
func TestMCPHostSuites(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(hostVariable, "1")
	for _, run := range []struct{ name, suite, args string }{
		{"0.1", suite01, "--suite core"},
		{"2025-11-25", suite02, "--requirements 2025-11-25"},
		{"2026-07-28", suite02, "--requirements 2026-07-28"},
	} {
		t.Run(run.name, func(t *testing.T) {
			out, err := runNode(t, append([]string{run.suite, "client", "--command", program, "-o", t.TempDir()}, strings.Fields(run.args)...)...)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
