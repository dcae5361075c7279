package mcphost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server that was restarted knows no session: it gets a new one, and the call that found out is sent in it. Servers refuse the old
// one with 404 or 400, with or without the id of the request.
func TestARestartedServerGetsANewSession(t *testing.T) {
	for _, mode := range []string{"stateful", "stateful strict", "stateful echoing", "stateful strict echoing"} {
		w := newWorld(t)
		w.must("Mcp.Add", `{"name":"fake","url":"`+serveHTTP(t, mode, w.dir)+`"}`, nil)
		for range 3 {
			w.must("Fake.Echo", `{"text":"hi"}`, nil)
			text, _ := os.ReadFile(filepath.Join(w.dir, "restarts"))
			if err := os.WriteFile(filepath.Join(w.dir, "restarts"), append(text, '.'), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(w.log.String(), "has failed") {
			t.Errorf("%s: a restart is no failure: %s", mode, w.log.String())
		}
	}
}

// A server that refuses each session is asked in one new session, and its own message is shown.
func TestAServerThatRefusesEachSession(t *testing.T) {
	w := newWorld(t)
	w.must("Mcp.Add", `{"name":"fake","url":"`+serveHTTP(t, "stateful strict forgetful", w.dir)+`"}`, nil)
	err := w.call("Fake.Echo", `{"text":"hi"}`, nil)
	if err == nil || !strings.Contains(err.Error(), "status 400: Bad Request: No valid session ID provided") {
		t.Errorf("it fails with %v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(w.dir, "headers")); strings.Count(string(text), "initialize initialize") != 2 {
		t.Errorf("it is asked\n%s", text)
	}
}
