package work

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"kernos/internal/jsonscan"
	"kernos/store"
)

// Priorities go from 0 to maxPriority. Of the tasks that are due, those of a higher priority
// begin first.
const (
	DefaultPriority = 5
	maxPriority     = 9
)

// A Task is something to be done, once its time has come. What it is about is not known here:
// the owner of the queue finds it by the task's ID.
type Task struct {
	ID       string    // ascends with time, so that tasks of one moment keep their order
	Due      time.Time // the task doesn't begin earlier
	Priority int       // from 0 to 9

	// Group is what the task shares a limit with: at most Limit tasks of a group run at once.
	// "" means that it shares none. A group has no zero byte in its name.
	Group string
	Limit int

	Clock bool // Options.Tick does the task, repeatedly, and only its time delays it

	// Value is for the worker, if the task begins at once. It isn't stored, and is nil if the task
	// has waited.
	Value any

	// Attempt counts the processes that have begun the task since it was added or moved, without
	// those that have stopped it: more than one means that a process died while the task ran. Fence
	// counts all leases.
	Attempt int
	Fence   uint64
}

// entry is a task as it is stored, as the value of its place.
type entry struct {
	Group   string `json:"group,omitzero"`
	Limit   int    `json:"limit,omitzero"`
	Attempt int    `json:"attempt,omitzero"`
	Fence   uint64 `json:"fence,omitzero"`
	Process int64  `json:"process,omitzero"` // the process that has leased it
	Clock   bool   `json:"clock,omitzero"`

	// These are in the key of other subqueues than keyBegun.
	Due      int64 `json:"due,omitzero"` // ms
	Priority int   `json:"priority,omitzero"`
}

// The keys of a queue begin with SpaceWork and the queue's letter. A task has two: one that
// names its place, and the place, whose value is the task. A place is in one of five subqueues:
//
//	b id            begun: they were leased when they were added, and have no other key
//	d due…          timers: their time has not come
//	r priority due… ready: their time has come
//	g group \0 …    ready, and shares the limit of a group
//	h due…          held: they wait for Resume
//
// A task that runs keeps its place until it is done: if the process dies, the next one finds
// it there, and sees that it was leased.
const (
	keyBegun  = 'b'
	keyTimers = 'd'
	keyReady  = 'r'
	keyGroups = 'g'
	keyHeld   = 'h'
	keyTasks  = 't' // id → place
	keyPaused = 'p' // groups that are paused
)

// Unfinished reports whether the queue with this letter has tasks, before it is opened.
func Unfinished(s store.Reader, letter byte) (bool, error) {
	for _, kind := range []byte{keyTasks, keyBegun} {
		first, err := store.First(s, store.Prefix([]byte{store.SpaceWork, letter, kind}))
		if err != nil || first.Revision != 0 {
			return first.Revision != 0, err
		}
	}
	return false, nil
}

func (q *Queue) key(kind byte, parts ...[]byte) []byte {
	k := append(make([]byte, 0, 48), store.SpaceWork, q.opts.Letter, kind)
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}

func (q *Queue) taskKey(id string) []byte { return append(q.key(keyTasks), id...) }

func (q *Queue) begunKey(id string) []byte { return append(q.key(keyBegun), id...) }

// order returns the part of a place that sorts the tasks of a subqueue.
func (t *Task) order() []byte {
	b := make([]byte, 0, 9+len(t.ID))
	b = append(b, byte(maxPriority-t.Priority))
	b = binary.BigEndian.AppendUint64(b, uint64(max(t.Due.UnixMilli(), 0)))
	return append(b, t.ID...)
}

// place returns the key of a task in the subqueue where it belongs at a time.
func (q *Queue) place(t *Task, now time.Time) []byte {
	switch {
	case t.Due.After(now) || t.Clock:
		due := binary.BigEndian.AppendUint64(nil, uint64(t.Due.UnixMilli()))
		return q.key(keyTimers, due, []byte{byte(maxPriority - t.Priority)}, []byte(t.ID))
	case t.Group != "":
		return q.key(keyGroups, groupPrefix(t.Group), t.order())
	}
	return q.key(keyReady, t.order())
}

func groupPrefix(group string) []byte { return append([]byte(group), 0) }

// encode returns the value of a task at a place, as JSON encodes an entry. Reflection would cost
// 1.5 µs more, three times per task.
func (t *Task) encode(place []byte, process int64) []byte {
	o := make(jsonscan.Object, 0, 96+len(t.Group))
	o.Text("group", t.Group)
	o.Number("limit", int64(t.Limit))
	o.Number("attempt", int64(t.Attempt))
	o.Number("fence", int64(t.Fence))
	o.Number("process", process)
	o.Flag("clock", t.Clock)
	if place[2] == keyBegun {
		o.Number("due", t.Due.UnixMilli())
		o.Number("priority", int64(t.Priority))
	}
	return o.End()
}

// decode reads a task from its place, and the process that has leased it; 0 means that none has.
func decode(key, value []byte) (t Task, process int64, err error) {
	var e entry
	if err := json.Unmarshal(value, &e); err != nil {
		return t, 0, fmt.Errorf("a task can't be read: %w", err)
	}
	rest := key[3:]
	t.Group, t.Limit, t.Attempt, t.Fence, t.Clock = e.Group, e.Limit, e.Attempt, e.Fence, e.Clock
	switch key[2] {
	case keyBegun:
		t.ID, t.Due, t.Priority = string(rest), time.UnixMilli(e.Due), e.Priority
		return t, e.Process, nil
	case keyGroups:
		rest = rest[len(e.Group)+1:]
		fallthrough
	case keyReady:
		t.Priority = maxPriority - int(rest[0])
		t.Due = time.UnixMilli(int64(binary.BigEndian.Uint64(rest[1:9])))
	default:
		t.Due = time.UnixMilli(int64(binary.BigEndian.Uint64(rest[:8])))
		t.Priority = maxPriority - int(rest[8])
	}
	t.ID = string(rest[9:])
	return t, e.Process, nil
}
