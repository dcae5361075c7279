package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// What a call did to a key, as far as its client knows.
type what int

const (
	wrote   what = iota // the key has a revision and a value by it
	read                // the key was seen at a revision with a value; revision 0: it doesn't exist
	missed              // it was seen at a revision, but not its value: a compare-and-set was refused
	unknown             // it may have written a value, or not, or may later
)

// hidden is the value of a revision that no client has read.
const hidden = -1

// A step is a call, or several ones with one idempotency key.
type step struct {
	key       string
	what      what
	revision  int64
	value     int64
	call, end int64 // since the beginning of the test; an unknown outcome has no end
	client    int
	note      string
}

func (s step) String() string {
	end := "never"
	if s.what != unknown {
		end = time.Duration(s.end).Round(time.Microsecond).String()
	}
	kind := [...]string{"wrote", "read", "missed", "unknown"}[s.what]
	return fmt.Sprintf("%14v – %14s  client %2d  %-7s revision %4d value %6d  %s", time.Duration(s.call).Round(time.Microsecond), end, s.client, kind, s.revision, s.value, s.note)
}

// A history is what all clients have seen of the keys of a round.
type history struct {
	mu    sync.Mutex
	keys  map[string][]step
	known int // steps with an outcome
	open  int // steps without
}

func (h *history) add(s step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys == nil {
		h.keys = make(map[string][]step)
	}
	h.keys[s.key] = append(h.keys[s.key], s)
	if s.what == unknown {
		h.open++
	} else {
		h.known++
	}
}

// A place is the state of a key.
type place struct{ revision, value int64 }

// model is a key on one machine. Every step but a failed one has its revision, so that at most one step can be next.
var model = porcupine.Model{
	Init: func() any { return place{} },
	Step: func(state, input, _ any) (bool, any) {
		at, s := state.(place), input.(step)
		switch s.what {
		case wrote:
			return at.revision+1 == s.revision, place{s.revision, s.value}
		case missed:
			return at.revision == s.revision, at
		}
		if at.revision == s.revision && at.value == hidden {
			at.value = s.value
		}
		return at == place{s.revision, s.value}, at
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string {
		s := input.(step)
		return s.String()
	},
}

// check finds out whether the history of each key is linearizable.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, steps := range h.keys {
		settled, problem := settle(steps)
		if problem == "" {
			problem = linear(settled)
		}
		if problem == "" {
			continue
		}
		slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.call, b.call) })
		var text strings.Builder
		for _, s := range steps {
			fmt.Fprintln(&text, s)
		}
		t.Errorf("the history of %s: %s\n%s", key, problem, text.String())
	}
}

// linear returns why steps aren't linearizable; "" if they are.
func linear(steps []step) string {
	operations := make([]porcupine.Operation, len(steps))
	for i, s := range steps {
		operations[i] = porcupine.Operation{ClientId: s.client, Input: s, Call: s.call, Return: s.end}
	}
	result, info := porcupine.CheckOperationsVerbose(model, operations, 0)
	if result == porcupine.Ok {
		return ""
	}
	longest := 0
	var last porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > longest {
				longest, last = len(order), order[len(order)-1]
			}
		}
	}
	if longest == 0 {
		return "isn't linearizable from the beginning"
	}
	return fmt.Sprintf("isn't linearizable: %d of %d steps are, up to\n%v\n", longest, len(steps), last.Input)
}

// settle replaces steps without an outcome. A write whose value was read had the outcome that was read, before that reading ended. A
// revision between two others that no client knows is one of the other writes, which no client has read; there can't be
// more of these revisions than of these writes. The remaining writes may have never happened, and are left out.
func settle(steps []step) (settled []step, problem string) {
	seen := make(map[int64]step) // readings, the first one to end of each value
	known := make(map[int64]bool)
	newest := int64(0)
	for _, s := range steps {
		newest = max(newest, s.revision)
		switch first, found := seen[s.value]; {
		case s.what == read && s.revision > 0 && (!found || s.end < first.end):
			seen[s.value] = s
		case s.what == wrote:
			known[s.revision] = true
		}
	}
	var lost []step
	for _, s := range steps {
		if s.what != unknown {
			settled = append(settled, s)
			continue
		}
		// An increment doesn't know its value before it has an outcome.
		by, found := seen[s.value]
		if !found || s.value == hidden {
			lost = append(lost, s)
			continue
		}
		s.what, s.revision, s.end = wrote, by.revision, max(by.end, s.call+1)
		known[s.revision] = true
		settled = append(settled, s)
	}
	slices.SortFunc(lost, func(a, b step) int { return cmp.Compare(a.call, b.call) })
	for revision := int64(1); revision <= newest; revision++ {
		if known[revision] {
			continue
		}
		if len(lost) == 0 {
			return settled, fmt.Sprintf("the revision %d is of no write: one has happened twice", revision)
		}
		// It isn't known which one it is; the earliest ones give the others the most room.
		settled = append(settled, step{
			what: wrote, revision: revision, value: hidden, call: lost[0].call, end: math.MaxInt64, client: lost[0].client, note: "one of the writes without an outcome",
		})
		lost = lost[1:]
	}
	return settled, ""
}

// TestHistories checks the checker.
func TestHistories(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"in order", []step{{what: wrote, revision: 1, value: 7, call: 1, end: 2}, {what: read, revision: 1, value: 7, call: 3, end: 4}}, ""},
		{"at the same time", []step{{what: wrote, revision: 1, value: 7, call: 1, end: 5}, {what: read, revision: 0, call: 2, end: 4}, {what: read, revision: 1, value: 7, call: 3, end: 4}}, ""},
		{"a stale read", []step{{what: wrote, revision: 1, value: 7, call: 1, end: 2}, {what: read, revision: 0, call: 3, end: 4}}, "linearizable"},
		{"a read of what is lost", []step{{what: wrote, revision: 1, value: 7, call: 1, end: 9}, {what: read, revision: 1, value: 7, call: 2, end: 3}, {what: read, call: 4, end: 5}}, "linearizable"},
		{"two of one revision", []step{{what: wrote, revision: 1, value: 7, call: 1, end: 2}, {what: wrote, revision: 1, value: 8, call: 3, end: 4}}, "linearizable"},
		{"unknown, and read", []step{{what: unknown, value: 7, call: 1}, {what: read, call: 2, end: 3}, {what: read, revision: 1, value: 7, call: 4, end: 5}}, ""},
		{"unknown, and overwritten", []step{{what: unknown, value: 7, call: 1}, {what: wrote, revision: 2, value: 8, call: 4, end: 5}}, ""},
		{"unknown, and never", []step{{what: unknown, value: 7, call: 1}, {what: wrote, revision: 1, value: 8, call: 4, end: 5}}, ""},
		{"unknown, and twice", []step{{what: unknown, value: 7, call: 1}, {what: wrote, revision: 3, value: 8, call: 4, end: 5}}, "twice"},
		{"read before it was called", []step{{what: unknown, value: 7, call: 4}, {what: read, revision: 1, value: 7, call: 1, end: 2}}, "linearizable"},
		{"a key that ran twice", []step{{what: wrote, revision: 1, value: 1, call: 1, end: 2}, {what: wrote, revision: 3, value: 3, call: 3, end: 4}}, "twice"},
		{"a compare-and-set that is refused", []step{{what: wrote, revision: 1, value: 1, call: 1, end: 2}, {what: missed, revision: 0, call: 3, end: 4}}, "linearizable"},
		{"an increment without an outcome", []step{{what: unknown, value: hidden, call: 1}, {what: read, revision: 1, value: 1, call: 3, end: 4}, {what: wrote, revision: 2, value: 2, call: 5, end: 6}}, ""},
	} {
		settled, problem := settle(test.steps)
		if problem == "" {
			problem = linear(settled)
		}
		if !strings.Contains(problem, test.want) || problem != "" && test.want == "" {
			t.Errorf("%s: %q; want %q", test.name, problem, test.want)
		}
	}
}
