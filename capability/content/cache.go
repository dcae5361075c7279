package content

import (
	"container/list"
	"sync"
)

// What a cache holds at most, and how large a value may be that it keeps.
const (
	maxKept      = 20_000
	maxKeptBytes = 16 << 20
	maxKeptValue = 2 << 20

	// keptCost is about what keeping a value costs beside its bytes.
	keptCost = 256
)

// cache keeps what was made of the files that were used last, by URI, together with the
// version that it was made of. Values are never changed. The zero value is empty.
type cache[V any] struct {
	mu    sync.Mutex
	kept  map[string]*list.Element // of *kept[V]
	order list.List                // the last used first
	bytes int
}

type kept[V any] struct {
	uri, version string
	value        V
	size         int
}

func (c *cache[V]) get(uri string) (value V, version string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.kept[uri]
	if e == nil {
		return value, "", false
	}
	c.order.MoveToFront(e)
	k := e.Value.(*kept[V])
	return k.value, k.version, true
}

// put keeps a value that was made of a version, in place of the one before.
func (c *cache[V]) put(uri, version string, value V, size int) {
	size += len(uri) + len(version) + keptCost
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.kept[uri])
	if size > maxKeptValue {
		return
	}
	if c.kept == nil {
		c.kept = make(map[string]*list.Element)
	}
	c.kept[uri] = c.order.PushFront(&kept[V]{uri, version, value, size})
	c.bytes += size
	for c.bytes > maxKeptBytes || c.order.Len() > maxKept {
		c.remove(c.order.Back())
	}
}

func (c *cache[V]) drop(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.kept[uri])
}

func (c *cache[V]) remove(e *list.Element) {
	if e == nil {
		return
	}
	k := c.order.Remove(e).(*kept[V])
	delete(c.kept, k.uri)
	c.bytes -= k.size
}
