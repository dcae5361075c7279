package memory

import "kernos/store"

// A draft is a change in the making: a batch, with places for what a common one has, and
// one buffer for its keys and values.
type draft struct {
	store.Batch
	ops        [4]store.Op
	conditions [2]store.Condition
	buf        []byte
	space      [512]byte // memory for buf, mostly large enough
}

// newDraft returns the draft of a change of a key, with room for some bytes beside its
// keys.
func newDraft(key memoryKey, room int) *draft {
	d := new(draft)
	d.Ops, d.Conditions, d.buf = d.ops[:0], d.conditions[:0], d.space[:0]
	if room += currentKeySize(key) + 2*historyKeySize(key); room > len(d.space) {
		d.buf = make([]byte, 0, room)
	}
	return d
}

// keep makes b the buffer, which was appended to, and returns what is new in it.
func (d *draft) keep(b []byte) []byte {
	start := len(d.buf)
	d.buf = b
	return b[start:len(b):len(b)]
}
