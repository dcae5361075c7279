package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kernos/internal/testkit"
	"kernos/store"
)

// logged is a store in memory whose last log has acknowledged entries.
type logged struct {
	fs      *vfs.MemFS
	entries map[string]string
	path    string // of the log
	text    []byte // of the log
}

// newLogged writes entries of some sizes, each of them synced, in the n-th run of a new store,
// and then closes it or is killed.
func newLogged(t *testing.T, run int, killed bool, sizes ...int) *logged {
	t.Helper()
	l := &logged{fs: vfs.NewCrashableMem(), entries: make(map[string]string)}
	opts := &Options{FS: l.fs}
	for i := 1; ; i++ {
		e := mustOpen(t, "store", opts)
		if i < run {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for n, size := range sizes {
			key, value := fmt.Sprintf("m/%03d", n), string(noise(n, size))
			set(t, e, key, value)
			l.entries[key] = value
		}
		fs := l.fs
		if killed {
			l.fs = fs.CrashClone(vfs.CrashCloneCfg{})
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		break
	}
	l.path = l.fs.PathJoin("store", newestLog(t, l.fs, "store"))
	var err error
	if l.text, err = readFile(l.fs, l.path, 1<<30); err != nil {
		t.Fatal(err)
	}
	return l
}

// write puts bytes into the log of a file system.
func (l *logged) write(t *testing.T, fs vfs.FS, at int, b ...byte) {
	t.Helper()
	f, err := fs.OpenReadWrite(l.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, int64(at))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// check opens a store whose log has other bytes at a place: it must be refused, or nothing of
// it be missing. It reports whether it was refused.
func (l *logged) check(t *testing.T, at int, b ...byte) bool {
	t.Helper()
	l.write(t, l.fs, at, b...)
	defer l.write(t, l.fs, at, l.text[at:at+len(b)]...)
	if _, suspects, err := readLogs(l.fs, "store"); err != nil || len(suspects) > 0 {
		return true // what Open makes of it is looked at by its own tests
	}
	// Others than the one that was changed see nothing of it.
	fs := vfs.NewMem()
	if ok, err := vfs.Clone(l.fs, fs, "store", "store"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	e, err := Open("store", &Options{FS: fs})
	if err != nil {
		return true
	}
	defer func() { _ = e.Close() }()
	got := scanAll(t, e)
	for key, value := range l.entries {
		if got[key] != value {
			t.Errorf("%d bytes from %d of %d on were changed, and %s is not there", len(b), at, len(l.text), key)
			break
		}
	}
	return false
}

func TestAChangedByteOfALogIsNoticed(t *testing.T) {
	for _, run := range []int{1, 2} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("run %d, killed %v", run, killed), func(t *testing.T) {
				l := newLogged(t, run, killed, 10, 100, 20, 30, 1, 300)
				refused := 0
				for at := range l.text {
					for _, bits := range []byte{0x01, 0x10, 0x80, 0xFF} {
						if l.check(t, at, l.text[at]^bits) {
							refused++
						}
					}
				}
				if most := 4 * len(l.text); refused < most*9/10 || refused > most {
					t.Errorf("%d of %d changes were noticed", refused, most)
				}
			})
		}
	}
}

func TestAChangedByteOfALongLogIsNoticed(t *testing.T) {
	// Records of several blocks, and blocks with ends into which no header fits.
	sizes := []int{40_000, 10, 70_000, 100, 5}
	for i := range 12 {
		sizes = append(sizes, recordBlock-300+i)
	}
	l := newLogged(t, 1, true, append(sizes, 10, 20)...)
	for at := range l.text {
		if near := (at + 25) % recordBlock; near < 50 || at%1999 == 0 {
			l.check(t, at, l.text[at]^0x01)
		}
	}
}

func TestALostSectorOfALogIsNoticed(t *testing.T) {
	sizes := []int{40_000, 10, 70_000, 100, 40_000, 5, 33_000}
	for range 5 { // the library says of these that those before them were synced
		sizes = append(sizes, 10)
	}
	for _, run := range []int{1, 2} {
		l := newLogged(t, run, true, sizes...)
		for at := 0; at < len(l.text)-1024; at += 4096 {
			if !l.check(t, at, make([]byte, 512)...) {
				t.Errorf("run %d: the bytes from %d on are zeros, and the store is opened", run, at)
			}
		}
	}
}

func TestATornEndOfALogIsNoDamage(t *testing.T) {
	l := newLogged(t, 1, true, 10, 50, 70_000)
	whole := len(l.text)
	for whole > 0 && l.text[whole-1] == 0 {
		whole--
	}
	torn := func(from, to int) {
		t.Helper()
		// What was never written, and what an older log has left.
		for _, rest := range [][]byte{make([]byte, to-from), noise(from, to-from)} {
			text := slices.Clone(l.text)
			copy(text[from:], rest)
			if err := checkLog(text, binary.LittleEndian.Uint32(text[7:])); err != nil {
				t.Fatalf("torn from %d to %d of %d: %v", from, to, whole, err)
			}
		}
	}
	for from := whole - whole%sector; from > whole-70_000; from -= 3 * sector {
		torn(from, whole)
		torn(from, min(from+sector, whole)) // what follows was written, and no sync had ended
	}
}

// The library keeps logs that it does not need any more, to use their files again. Damage to
// one of them is none; damage to one whose batches are in no table yet is.
func TestADamagedLogCountsIfItIsNeeded(t *testing.T) {
	for _, needed := range []bool{false, true} {
		t.Run(fmt.Sprint(needed), func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			f := &fault{err: syscall.EIO, match: onTables}
			e := mustOpen(t, "store", &Options{FS: errorfs.Wrap(mem, f), MemTableSize: 1 << 20})
			set(t, e, "m/first", "x")
			first := newestLog(t, mem, "store")
			path := mem.PathJoin("store", first)
			text, err := readFile(mem, path, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			f.on.Store(needed) // no table can be written
			if _, err := e.db.AsyncFlush(); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "a log", func() bool { return newestLog(t, mem, "store") != first })
			if !needed {
				if err := e.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			killed := mem.CrashClone(vfs.CrashCloneCfg{})
			f.on.Store(false)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if !needed { // it may have been removed by now
				if err := writeFile(killed, path, string(text)); err != nil {
					t.Fatal(err)
				}
			}
			// The number of the log becomes that of the next one, which is how a log ends.
			l := logged{path: path}
			l.write(t, killed, 7, text[7]+1)
			e, err = Open("store", &Options{FS: killed})
			if needed {
				fails(t, err, 500, "the file "+first+" is damaged")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			if got := scanAll(t, e); got["m/first"] != "x" {
				t.Errorf("got %v", got)
			}
		})
	}
}

// newestLog returns the name of the log that is being written.
func newestLog(t *testing.T, fs vfs.FS, dir string) (newest string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			newest = max(newest, name)
		}
	}
	return newest
}

// A new store has a log in which damage can be told from a torn end, from the first batch on.
func TestTheFirstLogSaysWhatWasSynced(t *testing.T) {
	l := newLogged(t, 1, false, 10)
	if l.text[6] < firstSyncChunk {
		t.Errorf("its chunks are of type %d", l.text[6])
	}
}

// An imported store has one, too.
func TestAnImportedStoreHasNoLogOfTheOldForm(t *testing.T) {
	dir := t.TempDir() + "/store"
	left := 3
	err := Import(dir, func() (store.Entry, bool, error) {
		left--
		return store.Entry{Key: fmt.Appendf(nil, "m/%d", left), Value: []byte("x"), Revision: 1}, left >= 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := readFile(vfs.Default, only(t, dir+"/*.log"), 1<<20)
	if _, ok := readChunk(text, 0, 0); ok || err != nil {
		t.Errorf("there is a record in its log: %x, %v", text, err)
	}
	set(t, mustOpen(t, dir, nil), "m/9", "x")
	text, err = readFile(vfs.Default, only(t, dir+"/*.log"), 1<<20)
	if err != nil || text[6] < firstSyncChunk {
		t.Errorf("its log has chunks of type %d, %v", text[6], err)
	}
}

// A file of whole records is good, and no change of a byte in it, short of its length, is.
func FuzzRecords(f *testing.F) {
	chunk := func(text string) []byte {
		b := append([]byte{0, 0, 0, 0, byte(len(text)), byte(len(text) >> 8), 1}, text...)
		binary.LittleEndian.PutUint32(b, checksum(b[6:]))
		return b
	}
	whole := append(chunk("one"), append(chunk("two"), chunk("three")...)...)
	f.Add(whole, 3)
	f.Add(whole[:len(whole)-2], 0)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		_ = checkRecords(text)
		if err := checkRecords(whole); err != nil {
			t.Error(err)
		}
		if at >= 0 && at < len(whole)-len("three")-recordHeader {
			bad := append([]byte(nil), whole...)
			bad[at] ^= 1
			if checkRecords(bad) == nil {
				t.Errorf("byte %d was changed, and that wasn't noticed", at)
			}
		}
	})
}

// A log of either form is good, and no change of a byte in it is.
func FuzzLog(f *testing.F) {
	logs := make(map[byte][]byte)
	for _, kind := range []byte{firstOldChunk, firstSyncChunk} {
		var whole []byte
		for i := range 3 {
			b := append(make([]byte, headerOf(kind)), "a batch"...)
			b[4], b[6], b[7] = byte(len("a batch")), kind, 5
			if kind == firstSyncChunk {
				binary.LittleEndian.PutUint64(b[oldLogHeader:], uint64(len(whole)*min(i, 1)))
			}
			binary.LittleEndian.PutUint32(b, checksum(b[6:]))
			whole = append(whole, b...)
		}
		logs[kind] = whole
		f.Add(whole, 3, byte(1))
		f.Add(whole[:len(whole)-2], 0, byte(0xFF))
	}
	f.Fuzz(func(t *testing.T, text []byte, at int, bit byte) {
		_ = checkLog(text, 5)
		for kind, whole := range logs {
			if err := checkLog(whole, 5); err != nil {
				t.Error(err)
			}
			if bit != 0 && at >= 0 && at < len(whole) {
				bad := slices.Clone(whole)
				bad[at] ^= bit
				if checkLog(bad, 5) == nil {
					t.Errorf("byte %d of a log of type %d was changed, and that wasn't noticed", at, kind)
				}
			}
		}
	})
}
