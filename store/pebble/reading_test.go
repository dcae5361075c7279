package pebble

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kernos/store"
)

// A store on a disk that takes nothing is read, and is written again when the disk lets it.
func TestAStoreThatCanNotBeWrittenIsRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	e, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	b.Set([]byte("m1"), []byte("one"))
	c, err := e.Apply(&b)
	if err != nil || c.Wait(context.Background()) != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// As openReading finds it, whichever user runs the test: the superuser can write anywhere.
	reading, err := openReading(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	reading.refuse(store.Errorf(507, nil, "full"))
	opened := 0
	r := store.Lazy(func() (store.Store, error) {
		if opened++; opened == 1 {
			return reading, nil
		}
		return OpenOrRead(dir, nil)
	})
	if got, err := r.Get([]byte("m1")); err != nil || string(got.Value) != "one" {
		t.Errorf("got %q, %v", got.Value, err)
	}
	n := 0
	for _, err := range r.Scan(store.Range{}) {
		if err != nil {
			t.Error(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
	if _, err := Open(dir, nil); err == nil {
		t.Error("another process opens it meanwhile")
	}
	b.Reset()
	b.Set([]byte("m2"), []byte("two"))
	if _, err := r.Apply(&b); err == nil || opened != 1 {
		t.Error("it is written at once")
	}
	reading.retryAt = time.Now()
	if _, err := r.Apply(&b); err != nil {
		t.Errorf("the disk is well, and %v", err)
	}
	if got, err := r.Get([]byte("m2")); err != nil || string(got.Value) != "two" {
		t.Errorf("got %q, %v", got.Value, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Get([]byte("m1")); err != store.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
}

func TestOpenOrReadMakesNoStoreOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOrRead(dir, nil); err == nil {
		t.Error("a file is a store")
	}
}
