package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// looks are commands that only look at what a kernel serves, and what they print.
var looks = []struct{ args, want string }{
	{"", "kernos help explains"},
	{"pipe", ""},
	{"--help", "Usage:"}, {"serve --help", "--addr"}, {"help memory", "get"}, {"memory", "get"}, {"memory --help", "get"},
	{"memory get --help", "--key"}, {"call", "memory"}, {"call Memory.Get --help", "--key"}, {"memory get --key a --dry-run", `"key":"a"`}, {"memory get a --as ndjson", `"type":"Memory.Get"`},
	{"ls", "Memory.Get"}, {"describe Memory.Get", "required"}, {"context list", "local"}, {"completion bash", "complete"}, {"__complete log --kind e", "event"}, {"__complete describe Mem", "Memory.Get"}, {"ls memory --jq .[].type", "Memory.Get\n"}, {"describe memory.get --json", `"input"`}, {"describe memory get", "required"},
	{"__complete memory g", "get\t"}, {"__complete memory get --k", "--key"}, {"__complete memory get --key a", ""}, {"__complete ls mem", "memory"},
}

// What only looks at the kernel starts no daemon, and makes no home.
func TestLookingStartsNothing(t *testing.T) {
	for _, c := range looks {
		t.Run(c.args, func(t *testing.T) {
			h := newHouse(t)
			if err := os.RemoveAll(h.home); err != nil {
				t.Fatal(err)
			}
			h.env = append(h.env, "XDG_CACHE_HOME="+t.TempDir())
			h.look(t, c.args, c.want)
			if _, err := os.Stat(h.home); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the home was made: %v", err)
			}
		})
	}
}

// What only looks at the kernel opens no store, no journal and no key: it leaves a home that was used as it is. What
// the daemon had when it was last called is known from the cache.
func TestLookingChangesNothing(t *testing.T) {
	h := newHouse(t)
	h.env = append(h.env, "XDG_CACHE_HOME="+t.TempDir())
	code := filepath.Join(t.TempDir(), "Text.Count.js")
	if err := os.WriteFile(code, []byte(`
		export const description = "Count words"
		export const InputSchema = {type: "object", properties: {text: {type: "string"}}, required: ["text"]}
		export const OutputSchema = {type: "integer"}
		export const handler = ({text}) => text.split(" ").length
	`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"memory", "set", "a", "--value", "b"}, {"crypto", "seal", "secret"}, {"register", code, "--kind", "query"}, {"call", "Text.Count", "text=a b"}, {"stop"},
	} {
		if out, notes, status := h.run("", args...); status != 0 {
			t.Fatalf("%v: %s%s", args, out, notes)
		}
	}
	before := h.files()
	for _, c := range append(looks, []struct{ args, want string }{
		{"text", "Count words"}, {"text count --help", "Count words"}, {"call", "text "}, {"__complete text c", "count\tCount words"},
		{"ls", "a daemon lists syscalls that were registered, too"}, {"call", "a daemon lists"},
	}...) {
		h.look(t, c.args, c.want)
		if after := h.files(); !maps.Equal(after, before) {
			t.Errorf("%s: before, the home has\n%v\nafterwards\n%v", c.args, before, after)
			before = after
		}
	}
	if out, notes, status := h.run("", "ls", "--jq", `.[] | select(.type == "Echo") | .kind`); status != 0 || out != "command\n" || !strings.Contains(notes, "no daemon is running") {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if out, notes, status := h.run("", "describe", "Text.Count"); status != 6 || out != "" || !strings.Contains(notes, "no daemon is running") {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if after := h.files(); !maps.Equal(after, before) {
		t.Errorf("before, the home has\n%v\nafterwards\n%v", before, after)
	}
	if out, notes, status := h.run("", "text", "count", "a b c"); status != 0 || out != "3\n" { // a call starts the daemon
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if out, notes, status := h.run("", "ls"); status != 0 || !strings.Contains(out, "Text.Count") || notes != "" {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
}

// look runs a command that only looks, where no daemon is running.
func (h *house) look(t *testing.T, args, want string) {
	t.Helper()
	out, err := h.command(strings.Fields(args)...).CombinedOutput() // its input is /dev/null
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%s: %v: %s", args, err, out)
	}
	if _, _, running := h.daemon(); running {
		t.Errorf("%s: a daemon is running", args)
	}
}

// files returns size and time of the last change of all that is in the home.
func (h *house) files() map[string]string {
	found := make(map[string]string)
	err := filepath.WalkDir(h.home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			found[path] = fmt.Sprint(info.Size(), " ", info.ModTime())
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}
