package pebble

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// only returns the one file that a pattern matches.
func only(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v %v", pattern, names, err)
	}
	return names[len(names)-1]
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += len(text)
	}
	text[at] ^= 0x10
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedDirectoryIsRefusedAndLeftAlone(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		damage func(dir string)
		code   int
		words  string
	}{
		{"foreign", func(dir string) {
			must(os.RemoveAll(dir))
			must(os.MkdirAll(filepath.Join(dir, "photos"), 0o700))
		}, 500, `t a store of kernos, and isn't empty (there is "photos")`},
		{"a long name", func(dir string) {
			must(os.RemoveAll(dir))
			must(os.MkdirAll(filepath.Join(dir, strings.Repeat("é", 40)), 0o700))
		}, 500, `(there is "` + strings.Repeat("é", 28) + `…")`},
		{"file", func(dir string) { must(os.RemoveAll(dir)); must(os.WriteFile(dir, nil, 0o600)) }, 500, "is a file"},
		{"marker missing", func(dir string) { must(os.Remove(filepath.Join(dir, "KERNOS"))) }, 500, "the file KERNOS is missing"},
		{"marker changed", func(dir string) { must(os.WriteFile(filepath.Join(dir, "KERNOS"), []byte("?"), 0o600)) }, 500, "the file KERNOS is damaged"},
		{"newer layout", func(dir string) {
			must(os.WriteFile(filepath.Join(dir, "KERNOS"), []byte(markerPrefix+"2. Hi.\n"), 0o600))
		}, 503, "newer kernos (layout 2)"},
		{"manifest missing", func(dir string) { must(os.Remove(only(t, dir+"/MANIFEST-*"))) }, 500, "the file MANIFEST-"},
		{"manifest empty", func(dir string) { must(os.Truncate(only(t, dir+"/MANIFEST-*"), 0)) }, 500, "the file MANIFEST-"},
		{"manifest cut in its first record", func(dir string) { must(os.Truncate(only(t, dir+"/MANIFEST-*"), 20)) }, 500, "the file MANIFEST-"},
		{"manifest changed at its beginning", func(dir string) { flip(t, only(t, dir+"/MANIFEST-*"), 10) }, 500, "the file MANIFEST-"},
		{"manifest changed at its end", func(dir string) { flip(t, only(t, dir+"/MANIFEST-*"), -5) }, 500, "the file MANIFEST-"},
		{"manifest marker missing", func(dir string) { must(os.Remove(only(t, dir+"/marker.manifest.*"))) }, 500, "marker.manifest is missing"},
		{"format marker missing", func(dir string) { must(os.Remove(only(t, dir+"/marker.format-version.*"))) }, 500, "marker.format-version is missing"},
		{"marker unreadable", func(dir string) { must(os.WriteFile(dir+"/marker.x", nil, 0o600)) }, 500, "damaged: the file marker."},
		{"options missing", func(dir string) { must(os.Remove(only(t, dir+"/OPTIONS-*"))) }, 500, "the file OPTIONS is missing"},
		{"options empty", func(dir string) { must(os.Truncate(only(t, dir+"/OPTIONS-*"), 0)) }, 500, "the file OPTIONS-"},
		{"options of another", func(dir string) {
			path := only(t, dir+"/OPTIONS-*")
			text, err := os.ReadFile(path)
			must(err)
			must(os.WriteFile(path, []byte(strings.Replace(string(text), "comparer=leveldb", "comparer=another", 1)), 0o600))
		}, 500, "damaged"},
		{"table missing", func(dir string) { must(os.Remove(only(t, dir+"/*.sst"))) }, 500, ".sst"},
		{"table cut", func(dir string) { must(os.Truncate(only(t, dir+"/*.sst"), 100)) }, 500, ".sst"},
		{"log changed", func(dir string) { flip(t, only(t, dir+"/*.log"), 30) }, 500, ".log"},
		{"newer schema", func(dir string) {
			s := schema{version: 7, kernos: "3.1.4", migrations: map[uint64]func(*crdb.DB, *crdb.Batch) error{}}
			for v := uint64(1); v < 7; v++ {
				s.migrations[v] = func(*crdb.DB, *crdb.Batch) error { return nil }
			}
			e, err := Open(dir, &Options{schema: &s})
			must(err)
			must(e.Close())
		}, 503, "use kernos 3.1.4 or later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			e := mustOpen(t, dir, &Options{MemTableSize: 1 << 20})
			fillStore(t, e, 3000, 500) // tables …
			set(t, e, "m/x", "a log")  // … and a log with more than one sync
			for range 20 {
				set(t, e, "m/y", "a log")
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			c.damage(dir)
			before := contents(t, dir)
			_, err := Open(dir, nil)
			fails(t, err, c.code, dir, c.words)
			unchanged(t, before, contents(t, dir))
			if strings.Contains(c.words, ".sst") || strings.Contains(c.words, "MANIFEST") {
				fails(t, err, c.code, "kernos restore FILE")
			}
		})
	}
}

func TestADirectoryWithoutPermission(t *testing.T) {
	top, err := os.MkdirTemp("", "kernos-pebble-") // one that others can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	dir := filepath.Join(top, "store")
	e := mustOpen(t, dir, nil)
	set(t, e, "m/1", "one")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode  os.FileMode
		words string
	}{{0o555, "can't be written"}, {0, "can't be read"}} {
		before := contents(t, dir)
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		if c.mode != 0 {
			if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					err = os.Chmod(path, 0o444)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		as(t, func() {
			_, err := Open(dir, nil)
			fails(t, err, 503, dir, c.words)
		})
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		unchanged(t, before, contents(t, dir))
	}
}

func TestADirectoryThatWasNeverFinishedIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	e := mustOpen(t, dir, nil)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "KERNOS"), filepath.Join(dir, "KERNOS.new")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(only(t, dir+"/MANIFEST-*")); err != nil {
		t.Fatal(err)
	}
	set(t, mustOpen(t, dir, nil), "m/1", "one")
}

func TestACorruptedBlockFailsItsReadersOnly(t *testing.T) {
	dir := t.TempDir()
	e := mustOpen(t, dir, &Options{MemTableSize: 1 << 20})
	fillStore(t, e, 4000, 500)
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(dir + "/*.sst")
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, path := range tables {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 64<<10 {
			flip(t, path, int(info.Size()/2)) // far from what Open reads
		}
	}
	e = mustOpen(t, dir, nil)
	good, bad := 0, 0
	for i := range 4000 {
		got, err := e.Get([]byte("m/" + pad(i)))
		if err != nil {
			bad++
			fails(t, err, 500, dir, ".sst", "kernos restore FILE")
		} else if string(got.Value) == string(noise(i, 500)) {
			good++
		}
	}
	if good == 0 || bad == 0 || good+bad != 4000 {
		t.Errorf("%d are readable, %d are not", good, bad)
	}
	for _, err := range e.Scan(store.Range{}) {
		if err != nil {
			fails(t, err, 500)
			bad = -1
		}
	}
	if bad != -1 {
		t.Error("a scan has not met the damage")
	}
	set(t, e, "m/new", "still written")
}

func pad(i int) string {
	s := "0000000" + string(rune('0'+i%10))
	for at, n := 6, i/10; n > 0; at, n = at-1, n/10 {
		s = s[:at] + string(rune('0'+n%10)) + s[at+1:]
	}
	return s
}

func TestMigration(t *testing.T) {
	dir := t.TempDir()
	first := schema{version: 1, kernos: "0.2.0"}
	e := mustOpen(t, dir, &Options{schema: &first})
	set(t, e, "m/1", "one")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	next := schema{version: 3, kernos: "0.9.0", migrations: map[uint64]func(*crdb.DB, *crdb.Batch) error{
		1: func(db *crdb.DB, b *crdb.Batch) error {
			value, closer, err := db.Get([]byte("m/1"))
			if err != nil {
				return err
			}
			defer closer.Close()
			return b.Set([]byte("m/2"), value, nil)
		},
		2: func(db *crdb.DB, b *crdb.Batch) error { return errors.New("not today") },
	}}
	_, err := Open(dir, &Options{schema: &next})
	fails(t, err, 500, "from version 2 to 3")
	next.migrations[2] = func(db *crdb.DB, b *crdb.Batch) error { return b.Delete([]byte("m/1"), nil) }
	e = mustOpen(t, dir, &Options{schema: &next})
	if got := scanAll(t, e); len(got) != 1 || got["m/2"] != "one" {
		t.Errorf("got %v", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, nil)
	fails(t, err, 503, "kernos 0.9.0 or later")
	old := schema{version: 9, kernos: "2", migrations: map[uint64]func(*crdb.DB, *crdb.Batch) error{8: nil}}
	_, err = Open(dir, &Options{schema: &old})
	fails(t, err, 500, "too old")
}

// A store that an earlier kernos has made is opened, and that kernos refuses it from then on.
func TestAnEarlierKernosRefusesAStoreOfThisOne(t *testing.T) {
	dir := t.TempDir()
	first := schema{version: 1, kernos: "0.2.0"}
	for _, opts := range []*Options{{schema: &first}, nil} {
		e := mustOpen(t, dir, opts)
		set(t, e, "m/1", "one")
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open(dir, &Options{schema: &first})
	fails(t, err, 503, "use kernos 0.20.0 or later")
}

func FuzzSchema(f *testing.F) {
	f.Add(current().encode())
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, value []byte) {
		if v, k, ok := parseSchema(value); ok {
			if v2, k2, ok := parseSchema(schema{version: v, kernos: k}.encode()); !ok || v2 != v || k2 != k {
				t.Errorf("%d %q became %d %q", v, k, v2, k2)
			}
		}
		_ = schemaIn(value)
	})
}

func FuzzMarker(f *testing.F) {
	f.Add([]byte(markerText))
	f.Add([]byte(markerPrefix + "2. Hi"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := parseMarker("dir", text); (err == nil) != (string(text) == markerText) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func FuzzValue(f *testing.F) {
	f.Add([]byte("\x01value"))
	f.Add([]byte{0})
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		r, value, err := split(stored)
		if err == nil && r == 0 {
			t.Error("revision 0")
		}
		if err == nil && len(stored) > 0 {
			if r2, v2, err := split(append(binary.AppendUvarint(nil, uint64(r)), value...)); err != nil || r2 != r || string(v2) != string(value) {
				t.Errorf("%d %q became %d %q %v", r, value, r2, v2, err)
			}
		}
	})
}
