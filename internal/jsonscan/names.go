package jsonscan

import (
	"bytes"
	"hash/maphash"
)

// few is how many names of one object are compared one by one; an object with
// more of them gets its names hashed.
const few = 8

// names finds repeated member names in the objects that are open.
type names struct {
	list  [][]byte          // names of all open objects, innermost last, unescaped
	plain []byte            // holds the names that had escapes
	seen  map[uint64][]byte // hash of object and name → name, for large objects
	seed  maphash.Seed
	large uint64 // number of the last large object
}

// object is the names' view of one open object.
type object struct {
	base  int    // index of its first name in list
	large uint64 // the object's number, 0 while it has few names
}

// maxKept is how many names a scanner keeps room for from one text to the next.
const maxKept = 4096

func (n *names) reset() {
	if cap(n.list) > maxKept || cap(n.plain) > 16*maxKept {
		n.list, n.plain = nil, nil
	}
	n.list = n.list[:0]
	n.plain = n.plain[:0]
	if n.large > 0 {
		n.large = 0
		if len(n.seen) > maxKept {
			n.seen = nil
		}
		clear(n.seen)
	}
}

func (n *names) open() object { return object{base: len(n.list)} }

// close forgets the names of an object. A scanner that waits for its next text must not
// keep this one from being freed.
func (n *names) close(o object) {
	clear(n.list[o.base:])
	n.list = n.list[:o.base]
}

// add notes a name, as written between the quotes, and reports whether it is new
// to the object.
func (n *names) add(o *object, name []byte) bool {
	if bytes.IndexByte(name, '\\') >= 0 {
		start := len(n.plain)
		n.plain = appendUnescaped(n.plain, name)
		name = n.plain[start:]
	}
	if o.large == 0 {
		mine := n.list[o.base:]
		for _, other := range mine {
			if len(other) == len(name) && string(other) == string(name) {
				return false
			}
		}
		n.list = append(n.list, name)
		if len(mine) < few {
			return true
		}
		if n.seen == nil {
			n.seen = make(map[uint64][]byte)
			n.seed = maphash.MakeSeed()
		}
		n.large++
		o.large = n.large
		for _, other := range n.list[o.base:] {
			n.insert(o.large, other)
		}
		return true
	}
	return n.insert(o.large, name)
}

// insert adds a name of a large object. Of two different names with one hash,
// the second one gets the next free hash.
func (n *names) insert(large uint64, name []byte) bool {
	h := maphash.Bytes(n.seed, name) ^ large*0x9E3779B97F4A7C15
	for {
		other, ok := n.seen[h]
		if !ok {
			n.seen[h] = name
			return true
		}
		if bytes.Equal(other, name) {
			return false
		}
		h++
	}
}
