package main

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"testing"
)

// Reading doesn't write: what these commands ask for isn't in the journal afterwards.
func TestReadingDoesNotFillTheJournal(t *testing.T) {
	h := newHouse(t)
	h.run(ping)
	all := func() string {
		out := h.must("", "log", "--json", "-n", "0")
		return out
	}
	before := all()
	if strings.Count(before, "\n") != 2 {
		t.Fatalf("recorded is %s", before)
	}
	for _, command := range []string{
		"status", "ls", "describe Echo", "doctor", "log -n 1", "watch --from 1 -n 2", "search ping", "graph p", "replay p", "token list",
		"__complete memory get --key x", "__complete call Mem", "__complete log --type Mem", "--help", "memory --help", "memory get --help",
	} {
		if out, notes, status := h.run("", strings.Fields(command)...); status != 0 {
			t.Errorf("%s: status %d: %s%s", command, status, out, notes)
		}
	}
	if after := all(); after != before {
		t.Errorf("before it was\n%safterwards it is\n%s", before, after)
	}
	// What a person does is there, and so is what a person asks for within a workflow.
	h.run("", "memory", "set", "--key", "a", "--value", "b")
	if after := all(); !strings.Contains(after, "Memory.Set") {
		t.Errorf("afterwards it is\n%s", after)
	}
}

// What --watch repeats isn't in the journal, whether or not the first answer is.
func TestWatchingDoesNotFillTheJournal(t *testing.T) {
	h := newHouse(t)
	h.must("", "memory", "set", "watched", "--value", "1")
	for _, c := range []struct {
		watch, change, typ string
		records            int
	}{
		{"job list -w", "memory set watched --value 1 --background", "Job.List", 0},
		{"job list -w -v", "memory set watched --value 1 --background", "Job.List", 2},
		{"memory get watched -w", "memory set watched --value 2", "Memory.Get", 2},
	} {
		watch := h.command(strings.Fields(c.watch)...)
		out, err := watch.StdoutPipe()
		if err := errors.Join(err, watch.Start()); err != nil {
			t.Fatal(err)
		}
		shown := bufio.NewReader(out)
		if line, err := shown.ReadString('\n'); err != nil {
			t.Fatalf("%s: %q, %v", c.watch, line, err)
		}
		h.must("", strings.Fields(c.change)...)
		if line, err := shown.ReadString('\n'); err != nil { // a later round shows the change
			t.Fatalf("%s: %q, %v", c.watch, line, err)
		}
		_ = watch.Process.Signal(os.Interrupt)
		_ = watch.Wait()
		if recorded := h.must("", "log", "type:"+c.typ, "--json", "-n", "0"); strings.Count(recorded, "\n") != c.records {
			t.Errorf("%s: recorded is\n%s", c.watch, recorded)
		}
	}
}
