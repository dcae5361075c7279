package pebble

import (
	"fmt"
	"sync"
	"testing"

	"kernos/store"
)

// A reader beside writers must never see an older value than one that was there
// before the read began: neither after its own write nor after another's.
func TestCachedEntriesAreNeverOld(t *testing.T) {
	e, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	const keys, writers, steps = 8, 4, 500
	var mu sync.Mutex
	newest := make(map[string]store.Revision) // what is known to be visible
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range steps {
				key := fmt.Sprintf("m%d", (w+i)%keys)
				mu.Lock()
				floor := newest[key]
				mu.Unlock()
				got, err := e.Get([]byte(key))
				if err != nil || got.Revision != 0 && got.Revision < floor { // it may be gone
					t.Errorf("%s was at revision %d and is at %d: %v", key, floor, got.Revision, err)
				}
				var b store.Batch
				if i%7 == 6 {
					b.DeleteRange([]byte("m"), []byte("n"))
					b.Set([]byte(key), []byte("x"))
				} else {
					b.Set([]byte(key), fmt.Append(nil, w, i))
				}
				b.IfRevision([]byte(key), got.Revision)
				c, err := e.Apply(&b)
				if err != nil {
					continue // another writer was faster
				}
				if after, err := e.Get([]byte(key)); err != nil || after.Revision != 0 && after.Revision < c.Revision {
					t.Errorf("%s: applied %d, and read %d: %v", key, c.Revision, after.Revision, err)
				}
				mu.Lock()
				if i%7 == 6 {
					clear(newest) // the others are gone, and absent is no revision
				} else {
					newest[key] = max(newest[key], c.Revision)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func TestTheCacheHasAbsentKeysAndNoLargeEntries(t *testing.T) {
	h := newCache()
	key := []byte("mkey")
	look := func() miss {
		_, at := h.get(key)
		return at
	}
	change := func(b *store.Batch, r store.Revision) {
		cacheChanges := h.begin(b, nil)
		h.end(b, cacheChanges, r)
		h.applied(cacheChanges)
	}
	h.put(store.Entry{Key: key}, look())
	if e, _ := h.get(key); e == nil || e.Revision != 0 {
		t.Error("an absent key is not remembered")
	}
	var b store.Batch
	b.Set(key, []byte("new"))
	old := look()
	cacheChanges := h.begin(&b, nil)
	e, during := h.get(key)
	if e != nil || !during.pending {
		t.Error("an entry is found while it is replaced, or looked for in the library as if that were complete")
	}
	h.put(store.Entry{Key: key, Value: []byte("old"), Revision: 1}, during) // read and put meanwhile
	h.end(&b, cacheChanges, 7)
	if e, _ := h.get(key); e == nil || e.Revision != 7 || string(e.Value) != "new" {
		t.Errorf("after a change: %v", e)
	}
	h.applied(cacheChanges)
	h.put(store.Entry{Key: key, Value: []byte("old"), Revision: 1}, old)    // read before, put after
	h.put(store.Entry{Key: key, Value: []byte("old"), Revision: 1}, during) // read meanwhile, put after
	if e, _ := h.get(key); e == nil || e.Revision != 7 {
		t.Errorf("an old entry is remembered: %v", e)
	}
	var twice store.Batch
	twice.Set(key, []byte("new"))
	twice.Delete(key)
	change(&twice, 8)
	if e, at := h.get(key); e != nil || at.pending {
		t.Errorf("a key that was set and deleted is %v", e)
	}
	h.put(store.Entry{Key: key, Value: make([]byte, cachedSize)}, look())
	if e, _ := h.get(key); e != nil {
		t.Error("a large entry is remembered")
	}
	h.put(store.Entry{Key: key}, look())
	old = look()
	var all store.Batch
	all.Set(key, []byte("new"))
	all.DeleteRange([]byte("m"), []byte("n"))
	cacheChanges = h.begin(&all, nil)
	other := []byte("mother")
	if e, at := h.get(other); e != nil || !at.pending {
		t.Error("a range is deleted, and a key is looked for as if it were not")
	}
	h.end(&all, cacheChanges, 9)
	h.applied(cacheChanges)
	h.put(store.Entry{Key: key, Value: []byte("old"), Revision: 1}, old)
	if e, at := h.get(key); e != nil || at.pending {
		t.Errorf("a key in a range that was deleted is %v", e)
	}
}
