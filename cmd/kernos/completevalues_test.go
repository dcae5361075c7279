package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A key is found wherever it stands in its folder, which may have more than one page.
func TestCompletionOfAKeyAmongMany(t *testing.T) {
	h := newCaller(t)
	var sets strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&sets, `{"kind":"command","type":"Memory.Set","data":{"key":"many/%04d","value":1},"metadata":{"id":"s%[1]d","timestamp":1735000000000}}`+"\n", i)
	}
	h.must(sets.String(), "pipe")
	if out, _, _ := h.run("", "__complete", "memory", "get", "--key", "many/119"); !strings.HasPrefix(out, "many/1190\nmany/1191\n") {
		t.Errorf("got %q", out)
	}
}

// What a server that is not known here would do with a call isn't known: none is made that
// the user hasn't asked for.
func TestCompletionCallsNothingOfForeignServers(t *testing.T) {
	privately(t)
	s := newForeign(t)
	s.answers["service_schema"] = []string{`"type":"data","content_type":"service.schema","data":{"modules":[{"namespace":"garden","version":"1","description":"Trees","methods":["list","plant"]}],"total_methods":2}`, `"type":"done"`}
	s.answers["service_module_schema"] = []string{`"type":"data","content_type":"service.module_schema","data":{"oneOf":[` +
		`{"type":"object","properties":{"method":{"const":"list"},"prefix":{"type":"string"}},"required":["method"]},` +
		`{"type":"object","properties":{"method":{"const":"plant"},"name":{"type":"string"}},"required":["method","name"]}]}`, `"type":"done"`}
	out, _, _ := foreign(t, "", "__complete", "garden", "plant", "--server", s.url, "--name", "o")
	if out != ":4\n" {
		t.Errorf("got %q", out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.params, func(call string) bool { return strings.HasPrefix(call, "garden_") }) {
		t.Errorf("called are %q", s.params)
	}
}

// The callers that messages can be selected by are completed, and so are the names of tokens.
func TestCallersAreCompletedAndTheirMessagesDrawn(t *testing.T) {
	h := newHouse(t)
	h.must(ping)
	h.must("", "token", "create", "ci", "--preset", "viewer")
	for args, want := range map[string]string{
		"log --principal ":      "owner\ndefault\ttoken agent\nci\ttoken viewer\n",
		"graph p --principal c": "ci\ttoken viewer\n",
		"token revoke c":        "ci\n",
		"token show ci ":        ":4\n",
	} {
		if out, _, _ := h.run("", append([]string{"__complete"}, strings.Split(args, " ")...)...); !strings.HasPrefix(out, want) {
			t.Errorf("%s: got %q", args, out)
		}
	}
	if out, _, status := h.run("", "graph", "p", "-o", "tree", "--principal", "owner"); status != 0 || !strings.HasPrefix(out, "? Ping") {
		t.Errorf("the owner's graph: %d %s", status, out)
	}
	if _, notes, status := h.run("", "graph", "p", "--principal", "ci"); status != 1 || !strings.Contains(notes, "has no messages that acted for ci") {
		t.Errorf("the graph of ci: %d %s", status, notes)
	}
	if out, _, status := h.run("", "log", "-o", "json", "-n", "1", "--principal", "owner"); status != 0 || !strings.Contains(out, `,"record":{"seq":`) || !strings.Contains(out, `"principal":"owner","wire":"ws"}}`) {
		t.Errorf("the log: %d %s", status, out)
	}
}

// A command that is a method, too, is completed once.
func TestCompletionsAreListedOnce(t *testing.T) {
	h := newHouse(t)
	for _, before := range []string{"", "help", "job", "mcp", "model", "session", "token", "help mcp", "help session"} {
		out, _, _ := h.run("", slices.Concat([]string{"__complete"}, strings.Fields(before), []string{""})...)
		seen := make(map[string]bool)
		for line := range strings.Lines(out) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if seen[name] {
				t.Errorf("kernos %s: %s is listed twice", before, name)
			}
			seen[name] = true
		}
		if len(seen) < 5 {
			t.Errorf("kernos %s: completed by %s", before, out)
		}
	}
}
