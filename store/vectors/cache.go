package vectors

import (
	"sync"
	"time"

	"kernos/store"
)

// A Cache holds the signs of indexes that were searched a short while ago. An index that is never searched takes
// no memory.
type Cache struct {
	limit int
	idle  time.Duration

	loading sync.Mutex // held while blocks are read, so that two searches don't both load an index

	mu    sync.Mutex
	views map[string]*view // views by the prefix of their index
	bytes int
	timer *time.Timer // nil while the cache is empty
}

// A view is the blocks of an index at a revision of its manifest. It is never changed, but for used.
type view struct {
	revision store.Revision
	blocks   []*block
	numbers  []uint64 // the numbers of blocks
	bytes    int
	used     time.Time
}

// NewCache returns an empty cache that holds limit bytes at most, and drops an index that hasn't been searched for
// idle. An index that is larger is read anew by each search.
func NewCache(limit int, idle time.Duration) *Cache {
	return &Cache{limit: limit, idle: idle, views: make(map[string]*view)}
}

// Bytes returns how much memory the cache holds.
func (c *Cache) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// view returns the blocks of a manifest.
func (c *Cache) view(x *Index, r store.Reader, m *manifest, revision store.Revision) ([]*block, error) {
	if v := c.get(x, revision); v != nil {
		return v.blocks, nil
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	if v := c.get(x, revision); v != nil {
		return v.blocks, nil
	}
	v := &view{revision: revision}
	for _, e := range m.blocks {
		k, err := x.block(r, e.number)
		if err != nil {
			return nil, err
		}
		v.add(e.number, k)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.views[string(x.prefix)]; old == nil || old.revision < revision { // a snapshot may be older than what was packed
		c.put(x, v)
	}
	return v.blocks, nil
}

func (v *view) add(number uint64, k *block) {
	v.blocks, v.numbers = append(v.blocks, k), append(v.numbers, number)
	v.bytes += k.bytes()
}

func (c *Cache) get(x *Index, revision store.Revision) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.views[string(x.prefix)]
	if v == nil || v.revision != revision {
		return nil
	}
	v.used = time.Now()
	return v
}

// put holds a view in place of the one before, if it fits; others that were used before make room. The caller has mu.
func (c *Cache) put(x *Index, v *view) {
	name := string(x.prefix)
	c.drop(name)
	if v.bytes == 0 || v.bytes > c.limit {
		return
	}
	v.used = time.Now()
	for c.bytes+v.bytes > c.limit {
		oldest := ""
		for name, v := range c.views {
			if oldest == "" || v.used.Before(c.views[oldest].used) {
				oldest = name
			}
		}
		c.drop(oldest)
	}
	c.views[name] = v
	c.bytes += v.bytes
	if c.timer == nil {
		c.timer = time.AfterFunc(c.idle, c.expire)
	}
}

func (c *Cache) drop(name string) {
	if v := c.views[name]; v != nil {
		c.bytes -= v.bytes
		delete(c.views, name)
	}
}

// expire drops what hasn't been used for long, and comes again for the rest.
func (c *Cache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := time.Duration(0)
	for name, v := range c.views {
		left := c.idle - time.Since(v.used)
		if left <= 0 {
			c.drop(name)
		} else if next == 0 || left < next {
			next = left
		}
	}
	c.timer = nil
	if next > 0 {
		c.timer = time.AfterFunc(next, c.expire)
	}
}

// packed brings a view up to date with what was packed into its index.
func (c *Cache) packed(x *Index, before, after store.Revision, m *manifest, changed map[uint64]*block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := string(x.prefix)
	old := c.views[name]
	if old == nil {
		return
	}
	used := old.used
	if old.revision != before {
		c.drop(name)
		return
	}
	blocks := make(map[uint64]*block, len(old.blocks))
	for i, k := range old.blocks {
		blocks[old.numbers[i]] = k
	}
	v := &view{revision: after}
	for _, e := range m.blocks {
		k := changed[e.number]
		if k == nil {
			k = blocks[e.number]
		}
		v.add(e.number, k)
	}
	c.put(x, v)
	v.used = used // packing isn't a search
}
