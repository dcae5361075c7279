package pebble

import (
	"sync/atomic"

	"kernos/store"
)

// memtableSpace guesses whether a batch can be given to Pebble without waiting. It waits when
// its table in memory is full, for another one and for a new log, which takes for ever
// if the disk fails. A guess that is too cautious costs a change of goroutines; one
// that is not cautious enough makes one caller wait for the disk.
type memtableSpace struct {
	size   atomic.Int64 // size of the memtable
	used   atomic.Int64 // upper bound of what the memtable's batches take
	tables atomic.Int64 // memtables so far
}

const (
	firstTable = 256 << 10 // Pebble's first memtable; each next one is twice as large
	perEntry   = 32        // bytes that an entry takes beside its key, its value and numbers, rather too many
	perWish    = 192       // bytes that Pebble wants to be free in addition, for each entry
)

// renewed is called when there is a new log, which means a new table.
func (m *memtableSpace) renewed(limit int64) {
	m.size.Store(min(max(2*m.size.Load(), firstTable), limit))
	m.used.Store(0)
	m.tables.Add(1)
}

// spaceFor returns how much a batch takes, and how much Pebble wants to be free for it.
func spaceFor(b *store.Batch, bytes int) (takes, wants int64) {
	takes = int64(bytes + perEntry*len(b.Ops))
	return takes, takes + int64(perWish*len(b.Ops))
}

// group returns how much the batches that gather may want, before the last one.
func (m *memtableSpace) group() int64 { return min(maxGroup, m.size.Load()/8) }

// take notes a batch and reports whether there is plenty of space for it, whatever has
// gathered before it.
func (m *memtableSpace) take(takes, wants int64) bool {
	used := m.used.Add(takes)
	return !m.large(wants) && used+wants+m.group() < m.size.Load()
}

// large reports whether Pebble gives a batch a table and a log of its own.
func (m *memtableSpace) large(wants int64) bool { return wants >= m.size.Load()/4 }
