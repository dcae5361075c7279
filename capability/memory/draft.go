package memory

import (
	"kernos/internal/jsonscan"
	"kernos/store"
)

// A draft is a change in the making: a batch, with places for what a common one has, and
// one buffer for its keys and values.
type draft struct {
	store.Batch
	ops        [4]store.Op
	conditions [2]store.Condition
	buf        []byte
	space      [512]byte // where most buffers are
}

// newDraft returns the draft of a change of a key, with room for some bytes beside its
// keys.
func newDraft(key Key, room int) *draft {
	d := new(draft)
	d.Ops, d.Conditions, d.buf = d.ops[:0], d.conditions[:0], d.space[:0]
	if room += currentKeySize(key) + 2*historyKeySize(key); room > len(d.space) {
		d.buf = make([]byte, 0, room)
	}
	return d
}

// The following put something into the buffer and return it.

func (d *draft) currentKey(key Key) []byte {
	start := len(d.buf)
	d.buf = appendCurrentKey(d.buf, key)
	return d.since(start)
}

func (d *draft) historyKey(key Key, revision uint64) []byte {
	start := len(d.buf)
	d.buf = appendHistoryKey(d.buf, key, revision)
	return d.since(start)
}

func (d *draft) text(s string) []byte {
	start := len(d.buf)
	d.buf = append(d.buf, s...)
	return d.since(start)
}

// compact takes JSON, and leaves out the white space between its tokens.
func (d *draft) compact(value []byte) []byte {
	start := len(d.buf)
	d.buf = jsonscan.AppendCompact(d.buf, value)
	return d.since(start)
}

func (d *draft) record(v *version) []byte {
	start := len(d.buf)
	d.buf = v.append(d.buf)
	return d.since(start)
}

func (d *draft) since(start int) []byte { return d.buf[start:len(d.buf):len(d.buf)] }
