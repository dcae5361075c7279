// Package recent keeps values that were used not long ago, within bounds.
package recent

import (
	"container/list"
	"sync"
)

// Limits are what a [Cache] holds at most. All of them must be set.
type Limits struct {
	Values int // number of values
	Bytes  int // bytes of all values
	Each   int // bytes of one value; a larger one is not kept
}

// A Cache keeps the values that were used last, by name. Values are never changed. It is safe
// for concurrent use.
type Cache[V any] struct {
	limits Limits

	mu    sync.Mutex
	kept  map[string]*list.Element // elements are *entry[V]
	order list.List                // the last used first
	bytes int
}

type entry[V any] struct {
	name  string
	value V
	size  int
}

// New returns an empty cache.
func New[V any](l Limits) *Cache[V] {
	return &Cache[V]{limits: l, kept: make(map[string]*list.Element)}
}

// Get returns the value of a name.
func (c *Cache[V]) Get(name string) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.kept[name]
	if e == nil {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry[V]).value, true
}

// Put keeps a value of some bytes, in place of the one before. That goes also if the new one
// is too large.
func (c *Cache[V]) Put(name string, value V, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.kept[name])
	if size > c.limits.Each {
		return
	}
	c.kept[name] = c.order.PushFront(&entry[V]{name, value, size})
	c.bytes += size
	for c.bytes > c.limits.Bytes || c.order.Len() > c.limits.Values {
		c.remove(c.order.Back())
	}
}

// Drop forgets the value of a name.
func (c *Cache[V]) Drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.kept[name])
}

func (c *Cache[V]) remove(e *list.Element) {
	if e == nil {
		return
	}
	gone := c.order.Remove(e).(*entry[V])
	delete(c.kept, gone.name)
	c.bytes -= gone.size
}
