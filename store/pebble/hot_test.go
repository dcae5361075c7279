package pebble

import (
	"fmt"
	"sync"
	"testing"

	"kernos/store"
)

// Whoever reads while others write must never see an older value than one that was there
// before the read began: neither after their own write nor after anybody's.
func TestHotEntriesAreNeverOld(t *testing.T) {
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
					continue // somebody was faster
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

func TestHotRemembersWhatIsAbsentAndForgetsWhatIsLarge(t *testing.T) {
	h := newHot()
	key := []byte("mkey")
	h.put(store.Entry{Key: key}, h.age(key))
	if e, ok := h.get(key); !ok || e.Revision != 0 {
		t.Error("an absent key is not remembered")
	}
	var b store.Batch
	b.Set(key, []byte("new"))
	old := h.age(key)
	were := h.begin(&b, nil)
	if _, ok := h.get(key); ok {
		t.Error("an entry is found while it is replaced")
	}
	h.put(store.Entry{Key: key, Value: []byte("old"), Revision: 1}, h.age(key)) // read and put meanwhile
	h.end(&b, were, 7)
	if e, ok := h.get(key); !ok || e.Revision != 7 || string(e.Value) != "new" {
		t.Errorf("after a change: %v, %v", e, ok)
	}
	h.end(&b, h.begin(&b, nil), 0)
	h.put(store.Entry{Key: key, Value: []byte("old"), Revision: 1}, old) // read before, put after
	if e, ok := h.get(key); ok {
		t.Errorf("an old entry is remembered: %v", e)
	}
	h.put(store.Entry{Key: key}, h.age(key))
	var twice store.Batch
	twice.Set(key, []byte("new"))
	twice.Delete(key)
	h.end(&twice, h.begin(&twice, nil), 8)
	if e, ok := h.get(key); ok && e.Revision != 0 {
		t.Errorf("a key that was set and deleted is %v", e)
	}
	h.put(store.Entry{Key: key, Value: make([]byte, hotSize)}, h.age(key))
	if _, ok := h.get(key); ok {
		t.Error("a large entry is remembered")
	}
}
