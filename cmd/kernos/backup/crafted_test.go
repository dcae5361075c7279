package backup

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/store"
	"kernos/store/archive"
	"kernos/store/pebble"
)

// newHome returns a home whose store has one entry.
func newHome(t *testing.T) daemon.Home {
	t.Helper()
	home, err := daemon.FindHome(t.TempDir(), store.DefaultOrigin)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := pebble.Open(home.Store(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	b.Set([]byte{store.SpaceMemory, 'a'}, []byte("precious"))
	if _, err := engine.Apply(&b); err != nil {
		t.Fatal(err)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	return home
}

// kept returns the value of the entry in a home.
func kept(t *testing.T, home daemon.Home) string {
	t.Helper()
	engine, err := pebble.Open(home.Store(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	e, err := engine.Get([]byte{store.SpaceMemory, 'a'})
	if err != nil {
		t.Fatal(err)
	}
	return string(e.Value)
}

// A backup that was crafted is refused before anything is replaced, or makes a store that can
// be opened.
func TestCraftedBackups(t *testing.T) {
	for name, c := range map[string]struct {
		origin store.Origin
		entry  store.Entry
		words  string // of the error; "" if it is restored
	}{
		"the highest number":  {store.DefaultOrigin, store.Entry{Key: []byte("ma"), Revision: math.MaxInt64}, "a number in it is too large"},
		"the first too high":  {store.DefaultOrigin, store.Entry{Key: []byte("ma"), Revision: store.MaxRevision + 1}, "a number in it is too large"},
		"no revision":         {store.DefaultOrigin, store.Entry{Key: []byte("m\x1b[31m")}, "an entry that no store can have"},
		"a key of the engine": {store.DefaultOrigin, store.Entry{Key: []byte("\x00kernos/revision"), Revision: 1}, "an entry that no store can have"},
		"no origin":           {"https://kernos.local/\x1b[31m", store.Entry{Key: []byte("ma"), Revision: 1}, "its origin "},
		"the highest":         {store.DefaultOrigin, store.Entry{Key: []byte{store.SpaceMemory, 'a'}, Value: []byte("new"), Revision: store.MaxRevision}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			home, file := newHome(t), filepath.Join(t.TempDir(), "file")
			var packed bytes.Buffer
			w, err := archive.NewWriter(&packed, archive.Header{Origin: c.origin})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Entry(c.entry); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			var report strings.Builder
			err = (Restore{Name: file, Home: home, AnyOrigin: true, Replace: true, Report: &report}).Run(t.Context())
			want := "precious"
			if c.words == "" {
				want = "new"
			}
			if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "\x1b") || strings.Contains(report.String(), "\x1b") {
				t.Errorf("a terminal obeys %q, %q", err, report.String())
			}
			if got := kept(t, home); got != want {
				t.Errorf("the home has %q", got)
			}
			// What is restored can be backed up and restored again.
			for range 2 {
				again := filepath.Join(t.TempDir(), "again")
				if _, err := write(t.Context(), caller(t, home), again, nil, io.Discard, io.Discard); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
