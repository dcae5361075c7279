package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// What only looks at the kernel starts no daemon, and makes no home.
func TestLookingStartsNothing(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "Usage:"},
		{"pipe", ""},
		{"--help", "Usage:"}, {"serve --help", "--addr"}, {"help memory", "get"}, {"memory", "get"}, {"memory --help", "get"},
		{"memory get --help", "--key"}, {"call", "memory"}, {"call Memory.Get --help", "--key"}, {"memory get --key a --dry-run", `"key":"a"`},
		{"ls", "Memory.Get"}, {"describe Memory.Get", "required"}, {"context list", "local"}, {"completion bash", "complete"}, {"__complete log --kind e", "event"}, {"__complete describe Mem", "Memory.Get"}, {"ls memory --jq .[].type", "Memory.Get\n"}, {"describe memory.get --json", `"input"`}, {"describe memory get", "required"},
	} {
		t.Run(c.args, func(t *testing.T) {
			h := newHouse(t)
			h.env = append(h.env, "XDG_CACHE_HOME="+t.TempDir())
			command := h.command(strings.Fields(c.args)...) // its input is /dev/null
			out, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
			if _, _, running := h.daemon(); running {
				t.Error("a daemon is running")
			}
			if _, err := os.Stat(h.home); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the home was made: %v", err)
			}
		})
	}
}
