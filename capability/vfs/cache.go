package vfs

import (
	"container/list"
	"sync"
	"time"
)

// page is a file of a server as it was read.
type page struct {
	data         []byte
	version      string
	modified     time.Time
	etag         string // by which it is asked for again
	lastModified string // likewise, if there is no ETag
}

// What a cache holds at most, and how large a page may be that it keeps.
const (
	maxPages     = 512
	maxPageBytes = 32 << 20
	maxPage      = 4 << 20
)

// cache keeps the pages that were used last. The zero value is empty.
type cache struct {
	mu    sync.Mutex
	pages map[string]*list.Element // of *keptPage
	order list.List                // the last used first
	bytes int
}

type keptPage struct {
	name string
	*page
}

func (c *cache) get(name string) *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pages[name]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*keptPage).page
}

// put keeps a page that can be asked for again, in place of the one before.
func (c *cache) put(name string, p *page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.pages[name])
	if p.etag == "" && p.lastModified == "" || len(p.data) > maxPage {
		return
	}
	if c.pages == nil {
		c.pages = make(map[string]*list.Element)
	}
	c.pages[name] = c.order.PushFront(&keptPage{name, p})
	c.bytes += len(p.data)
	for c.bytes > maxPageBytes || c.order.Len() > maxPages {
		c.remove(c.order.Back())
	}
}

func (c *cache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.pages[name])
}

func (c *cache) remove(e *list.Element) {
	if e == nil {
		return
	}
	p := c.order.Remove(e).(*keptPage)
	delete(c.pages, p.name)
	c.bytes -= len(p.data)
}
