package blobs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

func put(t *testing.T, d *blobs.Dir, data string) blobs.Blob {
	t.Helper()
	b, err := d.Put([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func age(t *testing.T, path string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestCollectRemovesOldBlobsWithoutReferences(t *testing.T) {
	dir := t.TempDir()
	d, s := newDir(t, dir), storetest.NewMemory()
	needed, old, young := put(t, d, "needed"), put(t, d, "old"), put(t, d, "young")
	age(t, needed.Path, time.Hour)
	age(t, old.Path, time.Hour)
	change(t, s, func(b *store.Batch) { blobs.Refer(b, needed.Hash, []byte("me")) })

	// What a crash leaves, and what is not ours.
	left := []string{filepath.Join(dir, ".new-1"), filepath.Join(filepath.Dir(old.Path), ".new-2")}
	foreign := []string{filepath.Join(dir, "README"), filepath.Join(dir, old.Hash.String()), filepath.Join(dir, ".old-x")}
	for _, path := range slices.Concat(left, foreign) {
		writeFile(t, path)
		age(t, path, time.Hour)
	}
	writeFile(t, filepath.Join(dir, ".new-3")) // a writer is at it

	got, err := d.Collect(t.Context(), s, time.Minute, time.Now())
	want := blobs.Collected{Files: 3, Bytes: int64(len("old") + 2*len("in the way")), Removed: []blobs.Hash{old.Hash}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("collected %+v, %v; want %+v", got, err, want)
	}
	stay := append(foreign, needed.Path, young.Path, filepath.Join(dir, ".new-3"))
	slices.Sort(stay)
	if left := files(t, dir); !slices.Equal(left, stay) {
		t.Errorf("there are %q, want %q", left, stay)
	}

	// When it is let go and old, it goes too.
	change(t, s, func(b *store.Batch) { blobs.Unrefer(b, needed.Hash, []byte("me")) })
	if got, err := d.Collect(t.Context(), s, time.Minute, time.Now().Add(time.Hour)); err != nil || got.Files != 3 {
		t.Errorf("collected %+v, %v", got, err)
	}
	if got, err := d.Collect(t.Context(), s, 0, time.Now()); err != nil || got.Files != 0 {
		t.Errorf("collected %+v, %v where nothing is left", got, err)
	}
}

func TestCollectOfNoDirectoryIsNothing(t *testing.T) {
	d := newDir(t, filepath.Join(t.TempDir(), "none"))
	if got, err := d.Collect(t.Context(), storetest.NewMemory(), 0, time.Now()); err != nil || got.Files != 0 {
		t.Errorf("collected %+v, %v", got, err)
	}
}

// A collection that crashed, or another one at this moment, has put a blob aside.
func TestBlobThatWasPutAsideComesBack(t *testing.T) {
	d, s := newDir(t, t.TempDir()), storetest.NewMemory()
	b := put(t, d, "hello")
	aside := filepath.Join(filepath.Dir(b.Path), ".old-"+b.Hash.String())
	if err := os.Rename(b.Path, aside); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	age(t, aside, time.Hour)
	if got, err := d.Collect(t.Context(), s, time.Minute, time.Now()); err != nil || got.Files != 0 {
		t.Errorf("collected %+v, %v", got, err)
	}
	if data, err := d.Read(b.Hash); err != nil || string(data) != "hello" {
		t.Errorf("got %q, %v", data, err)
	}
	if info, err := os.Stat(b.Path); err != nil || info.ModTime().Before(begun.Add(-time.Minute)) {
		t.Error("it is old; the next collection would take it from the caller that has put it again meanwhile")
	}
}

func TestCollectStopsWhenItIsTold(t *testing.T) {
	d, s := newDir(t, t.TempDir()), storetest.NewMemory()
	put(t, d, "hello")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := d.Collect(ctx, s, 0, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) || got.Files != 0 {
		t.Errorf("collected %+v, %v", got, err)
	}
	// A store that can't tell who needs a blob does not make it garbage.
	s.Fail(func(string) error { return errors.New("broken") })
	if got, err := d.Collect(t.Context(), s, 0, time.Now().Add(time.Hour)); err == nil || got.Files != 0 {
		t.Errorf("collected %+v, %v", got, err)
	}
}

// Who puts and then refers never loses the blob, however often it is collected meanwhile.
func TestCollectRacesWithPut(t *testing.T) {
	d, s := newDir(t, t.TempDir()), storetest.NewMemory()
	const rounds = 60
	done := make(chan struct{})
	var using sync.RWMutex // held while a caller may count on the grace
	var collector, writers sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			// The blobs are made old below, and a Put makes them new.
			if _, err := d.Collect(context.Background(), s, time.Minute, time.Now()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	use := func(owner, data []byte) (path string, err error) {
		using.RLock()
		defer using.RUnlock()
		b, err := d.Put(data)
		if err != nil {
			return "", err
		}
		var refer, unrefer store.Batch
		blobs.Refer(&refer, b.Hash, owner)
		if _, err := s.Apply(&refer); err != nil {
			return "", err
		}
		if got, err := d.Read(b.Hash); err != nil || string(got) != string(data) {
			return "", fmt.Errorf("a blob that is needed is %q, %w", got, err)
		}
		blobs.Unrefer(&unrefer, b.Hash, owner)
		_, err = s.Apply(&unrefer)
		return b.Path, err
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range rounds {
				path, err := use(fmt.Appendf(nil, "writer %d", w), fmt.Appendf(nil, "shared %d", i%3))
				if err != nil {
					t.Error(err)
					return
				}
				if w == 0 {
					using.Lock()
					then := time.Now().Add(-time.Hour)
					_ = os.Chtimes(path, then, then) // as time would; it may be gone
					using.Unlock()
				}
			}
		})
	}
	writers.Wait()
	close(done)
	collector.Wait()
}

// Who wants to refer to a blob that another caller has put keeps it until they have.
func TestKeptBlobsAreLeftAlone(t *testing.T) {
	d, s := newDir(t, t.TempDir()), storetest.NewMemory()
	kept, left, never := put(t, d, "kept"), put(t, d, "left"), blobs.Sum([]byte("never"))
	old := time.Now().Add(-time.Hour)
	for _, b := range []blobs.Blob{kept, left} {
		if err := os.Chtimes(b.Path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.Keep([]blobs.Hash{never, kept.Hash}); !slices.Equal(got, []blobs.Hash{kept.Hash}) {
		t.Errorf("there are %v", got)
	}
	if got, err := d.Collect(t.Context(), s, time.Minute, time.Now()); err != nil || got.Files != 1 {
		t.Errorf("collected %v, %v", got, err)
	}
	if _, err := d.Read(kept.Hash); err != nil {
		t.Error(err)
	}
}
