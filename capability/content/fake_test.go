package content

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kernos/capability/vfs"
	"kernos/message"
)

// shelf is a tree of files in memory that counts what is asked of it.
type shelf struct {
	resolver *vfs.Tree

	mu      sync.Mutex
	files   map[string]string // by URI
	version map[string]int
	reads   map[string]int
	before  func(ctx context.Context, uri string) // a read
}

func newShelf(t testing.TB, files map[string]string) *shelf {
	t.Helper()
	resolver, err := vfs.New(vfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &shelf{resolver: resolver, files: make(map[string]string), version: make(map[string]int), reads: make(map[string]int)}
	for name, text := range files {
		s.set("os://"+name, text)
	}
	return s
}

func (s *shelf) set(uri, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[uri] = text
	s.version[uri]++
}

func (s *shelf) readsOf(uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads[uri]
}

func (s *shelf) Resolve(uri, base string) (string, error) { return s.resolver.Resolve(uri, base) }

func (s *shelf) Read(ctx context.Context, uri string) (File, error) {
	if s.before != nil {
		s.before(ctx, uri)
	}
	if err := ctx.Err(); err != nil {
		return File{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads[uri]++
	text, ok := s.files[uri]
	if !ok {
		return File{}, message.Errorf(404, "File not found: %s", uri)
	}
	return File{Data: []byte(text), Version: strconv.Itoa(s.version[uri])}, nil
}

func (s *shelf) Version(_ context.Context, uri string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.files[uri]; !ok {
		return "", message.Errorf(404, "File not found: %s", uri)
	}
	return strconv.Itoa(s.version[uri]), nil
}

func (s *shelf) Walk(_ context.Context, uri string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s.mu.Lock()
		var entries []Entry
		for _, name := range slices.Sorted(maps.Keys(s.files)) {
			if strings.HasPrefix(name, strings.TrimSuffix(uri, "/")+"/") || uri == "os://" {
				entries = append(entries, Entry{name, strconv.Itoa(s.version[name])})
			}
		}
		s.mu.Unlock()
		if entries == nil {
			yield(Entry{URI: uri}, message.Errorf(404, "File not found: %s", uri))
			return
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *shelf) Program(string) (string, bool) { return "", false }

func (s *shelf) Owned(string) bool { return true }
