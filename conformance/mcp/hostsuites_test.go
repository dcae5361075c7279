//go:build linux && amd64

package mcp

import (
	"os"
	"strings"
	"testing"
)

// TestMCPHostSuites runs the scenarios for clients of the protocol's own suites against Kernos as a host. A suite runs
// its scenarios at once, each with a process of its own, so that they get more time than the suite gives by itself. It
// isn't asked for its own judgement, which counts extensions and the clock.
func TestMCPHostSuites(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(hostVariable, "1")
	for _, run := range []struct {
		name, suite, args string
		scenarios         int
	}{
		{"0.1", suite01, "--suite core", 4},
		{"2025-11-25", suite02, "--requirements 2025-11-25", 25},
		{"2026-07-28", suite02, "--requirements 2026-07-28", 30},
		{"client credentials", suite02, "--scenario auth/client-credentials-basic", 1},
		{"client credentials, signed", suite02, "--scenario auth/client-credentials-jwt", 1},
		{"skills: nothing is read early", suite02, "--scenario sep-2640-client-no-prefetch", 1},
		{"skills: digest", suite02, "--scenario sep-2640-client-verify-digest", 1},
		{"skills: size", suite02, "--scenario sep-2640-client-verify-size", 1},
		{"skills: front matter", suite02, "--scenario sep-2640-client-verify-frontmatter", 1},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			results := t.TempDir()
			out, _ := runNode(t, append([]string{run.suite, "client", "--command", program, "--timeout", "120000", "-o", results}, strings.Fields(run.args)...)...)
			if n := checkResults(t, results); n < run.scenarios || t.Failed() {
				t.Errorf("%d scenarios have results, expected %d or more:\n%s", n, run.scenarios, out)
			}
		})
	}
}
