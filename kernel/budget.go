package kernel

import (
	"sync"

	"kernos/kernel/principal"
	"kernos/message"
)

// A Budget bounds, in bytes, what callers make the kernel hold for longer than a call takes: for
// each principal, and for all of them. It is safe for concurrent use.
type Budget struct {
	what      string // "watches and kept streams"
	all, each int64

	mu    sync.Mutex
	taken int64
	by    map[principal.ID]int64
}

// NewBudget returns a budget for something that has a name in the plural.
func NewBudget(what string, all, each int64) *Budget {
	return &Budget{what: what, all: all, each: each, by: make(map[principal.ID]int64)}
}

// Take takes bytes for a principal. If there are not as many left it takes none, and the error
// names the limit: 429 if it is the principal's, 503 if it is that of all. An eighth of the whole
// is for the owner alone, which has no other limit.
func (b *Budget) Take(p *principal.Principal, n int) *message.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	if !p.IsOwner() {
		all -= all / 8
		if b.by[p.ID()]+int64(n) > b.each {
			return message.Errorf(429, "The %s of the token %q may take %d bytes, and no more are taken; end some", b.what, p.Name(), b.each)
		}
	}
	if b.taken+int64(n) > all {
		return message.Errorf(503, "The %s of all callers may take %d bytes, and no more are taken; try again later", b.what, all)
	}
	b.taken += int64(n)
	b.by[p.ID()] += int64(n)
	return nil
}

// Give gives back bytes that were taken.
func (b *Budget) Give(p *principal.Principal, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= int64(n)
	if b.by[p.ID()] -= int64(n); b.by[p.ID()] == 0 {
		delete(b.by, p.ID())
	}
}

// Taken returns how many bytes are taken by all principals.
func (b *Budget) Taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}
