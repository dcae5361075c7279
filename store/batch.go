package store

import "bytes"

// A Batch is a list of changes that happen together, under conditions. The zero value
// is empty. It keeps the slices that it is given; they must not change until it has been
// applied.
type Batch struct {
	Ops        []Op
	Conditions []Condition
}

// An OpKind is what an Op does.
type OpKind byte

// What an Op can do.
const (
	OpSet         OpKind = 1 + iota
	OpDelete             // the key may be absent
	OpDeleteRange        // from Key on, before Value
)

// An Op is one change.
type Op struct {
	Kind       OpKind
	Key, Value []byte
}

// A Condition holds if a key has this revision: 0 if it is absent.
type Condition struct {
	Key      []byte
	Revision Revision
}

// Set gives a key a value.
func (b *Batch) Set(key, value []byte) { b.Ops = append(b.Ops, Op{OpSet, key, value}) }

// Delete removes a key.
func (b *Batch) Delete(key []byte) { b.Ops = append(b.Ops, Op{OpDelete, key, nil}) }

// DeleteRange removes the keys from one on and before another, which must not be nil.
func (b *Batch) DeleteRange(from, to []byte) {
	b.Ops = append(b.Ops, Op{OpDeleteRange, from, to})
}

// IfRevision makes the batch depend on a key's revision.
func (b *Batch) IfRevision(key []byte, r Revision) {
	b.Conditions = append(b.Conditions, Condition{key, r})
}

// IfAbsent makes the batch depend on a key's absence.
func (b *Batch) IfAbsent(key []byte) { b.IfRevision(key, 0) }

// Append takes over the changes and conditions of another batch.
func (b *Batch) Append(other *Batch) {
	b.Ops = append(b.Ops, other.Ops...)
	b.Conditions = append(b.Conditions, other.Conditions...)
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.Ops)
	clear(b.Conditions)
	b.Ops, b.Conditions = b.Ops[:0], b.Conditions[:0]
}

// Empty reports whether the batch changes nothing.
func (b *Batch) Empty() bool { return len(b.Ops) == 0 }

// Check finds what no engine takes: an empty key, a key of the engine's own, a range
// without an end.
func (b *Batch) Check() error {
	for _, op := range b.Ops {
		switch {
		case len(op.Key) == 0 || op.Key[0] == 0:
			return Errorf(500, nil, "A batch with a key that is empty or begins with a zero byte")
		case op.Kind == OpDeleteRange && bytes.Compare(op.Key, op.Value) > 0:
			return Errorf(500, nil, "A batch that deletes a range that ends before it begins")
		case op.Kind < OpSet || op.Kind > OpDeleteRange:
			return Errorf(500, nil, "A batch with a change of an unknown kind")
		}
	}
	return nil
}

// touches reports whether the batch changes a key that begins with prefix.
func (b *Batch) touches(prefix []byte) bool {
	for _, op := range b.Ops {
		if bytes.HasPrefix(op.Key, prefix) {
			return true
		}
		if op.Kind == OpDeleteRange {
			end := After(prefix)
			if bytes.Compare(op.Value, prefix) > 0 && (end == nil || bytes.Compare(op.Key, end) < 0) {
				return true
			}
		}
	}
	return false
}
