package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/internal/testkit"
	"kernos/store"
)

func TestMain(m *testing.M) {
	if work, ok := children[os.Getenv(childVariable)]; ok {
		work(os.Getenv(childVariable + "_DIR"))
	}
	goleak.VerifyTestMain(m)
}

func mustOpen(t testing.TB, dir string, opts *Options) *Engine {
	t.Helper()
	e, err := Open(dir, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func set(t testing.TB, e *Engine, key, value string) store.Revision {
	t.Helper()
	c := apply(t, e, key, value)
	if err := wait(c); err != nil {
		t.Fatalf("the commit of %q: %v", key, err)
	}
	return c.Revision
}

func apply(t testing.TB, e *Engine, key, value string) *store.Commit {
	t.Helper()
	c, err := e.Apply(sets(key, value))
	if err != nil {
		t.Fatalf("Apply %q: %v", key, err)
	}
	return c
}

func sets(key, value string) *store.Batch {
	b := new(store.Batch)
	b.Set([]byte(key), []byte(value))
	return b
}

func wait(c *store.Commit) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	return c.Wait(ctx)
}

// fails checks the code and the words of an error.
func fails(t *testing.T, err error, code int, words ...string) {
	t.Helper()
	e, ok := errors.AsType[*store.Error](err)
	if !ok {
		t.Errorf("got %v; want a store.Error", err)
		return
	}
	if e.Code != code {
		t.Errorf("got %d %v; want %d", e.Code, e, code)
	}
	for _, word := range words {
		if !strings.Contains(e.Text, word) {
			t.Errorf("%q does not say %q", e.Text, word)
		}
	}
}

// contents reads a directory: names, kinds and contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		text := "directory"
		if !d.IsDir() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		all[path] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unchanged says what differs between two readings of a directory.
func unchanged(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, text := range before {
		if got, ok := after[path]; !ok {
			t.Errorf("%s is gone", path)
		} else if got != text {
			t.Errorf("%s was changed: %d bytes, %d before", path, len(got), len(text))
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s is new", path)
		}
	}
}

func scanAll(t *testing.T, r store.Reader) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for e, err := range r.Scan(store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key)] = string(e.Value)
	}
	return all
}

// fillStore writes entries with values that don't compress.
func fillStore(t testing.TB, e *Engine, n, size int) {
	t.Helper()
	for i := 0; i < n; {
		var b store.Batch
		for range min(1000, n-i) {
			b.Set(fmt.Appendf(nil, "m/%08d", i), noise(i, size))
			i++
		}
		c, err := e.Apply(&b)
		if err != nil {
			t.Fatal(err)
		}
		if i >= n {
			if err := wait(c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func noise(seed, size int) []byte {
	x := uint64(seed)*0x9E3779B97F4A7C15 + 1
	b := bytes.Repeat([]byte{0}, size)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}
