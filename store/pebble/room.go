package pebble

import (
	"sync/atomic"

	"kernos/store"
)

// room guesses whether a batch can be given to the library without waiting. It waits when
// its table in memory is full, for another one and for a new log, which takes for ever
// if the disk fails. A guess that is too cautious costs a change of goroutines; one
// that is not cautious enough makes one caller wait for the disk.
type room struct {
	size atomic.Int64 // of the table in memory
	used atomic.Int64 // by what was given to it since it was made, at most
}

const (
	firstTable = 256 << 10 // the library's first table in memory; each next one is twice as large
	perEntry   = 80        // bytes that an entry takes beside its key and its value, rather too many
	perBatch   = 512       // that the library wants to be free in addition, for each entry
)

// renewed is called when there is a new log, which means a new table.
func (r *room) renewed(limit int64) {
	r.size.Store(min(max(2*r.size.Load(), firstTable), limit))
	r.used.Store(0)
}

// take notes a batch and reports whether there is plenty of room for it.
func (r *room) take(b *store.Batch, bytes int) bool {
	n := int64(bytes + perEntry*len(b.Ops))
	if n >= r.size.Load()/4 {
		r.used.Add(n)
		return false // the library gives a large batch a table and a log of its own
	}
	return r.used.Add(n)+int64(perBatch*len(b.Ops)) < r.size.Load()
}
