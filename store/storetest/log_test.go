package storetest

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
)

// logStore is the smallest engine that keeps every promise: a Memory and one file, to
// which each batch is written and synced before it is seen. The suite is tested with it, and
// with what it becomes when one of its virtues is taken away.
type logStore struct {
	*Memory
	fs      vfs.FS
	dir     string
	without vice

	mu     sync.Mutex
	lock   io.Closer
	file   vfs.File
	broken bool // the file may end in something unreadable
	closed bool
}

// A vice is what a logStore does wrong.
type vice int

const (
	virtuous        vice = iota
	syncsNothing         // a commit is not durable
	syncsNoFolder        // the file is not in its folder after a power cut
	writesHalves         // a batch is several records
	seesTooEarly         // what could not be written is seen
	staysBroken          // after an error it never writes again
	overlooksErrors      // an error of the disk is not told
	hangsOnErrors        // a commit is never decided
	tellsNoCode          // an error has no code
	losesRevision        // revisions begin again
)

// A logRecord is a batch, or all that there is.
type logRecord struct {
	Revision store.Revision
	Ops      []store.Op
	All      []store.Entry
}

// logEngine is the engine on the real disk or on another.
func logEngine(v vice, disk vfs.FS) Engine {
	open := func(fs vfs.FS, dir string) (store.Store, error) { return openLog(fs, dir, v) }
	return Engine{
		Open:   func(dir string) (store.Store, error) { return open(disk, dir) },
		OpenFS: open,
	}
}

func openLog(fs vfs.FS, dir string, v vice) (*logStore, error) {
	l := &logStore{Memory: NewMemory(), fs: fs, dir: dir, without: v, broken: true}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := l.syncFolder(fs.PathDir(dir)); err != nil {
		return nil, err
	}
	lock, err := fs.Lock(fs.PathJoin(dir, "LOCK"))
	if err != nil {
		return nil, err
	}
	l.lock = lock
	err = l.read()
	if err == nil {
		err = l.rewrite()
	}
	if err != nil {
		_ = lock.Close() // the first error is the one to show
		return nil, err
	}
	return l, nil
}

func (l *logStore) path() string { return l.fs.PathJoin(l.dir, "log") }

func (l *logStore) syncFolder(dir string) error {
	if l.without == syncsNoFolder || dir == "" {
		return nil
	}
	d, err := l.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// read reads the file up to the first record that is not whole.
func (l *logStore) read() error {
	f, err := l.fs.Open(l.path())
	if err != nil {
		if names, listErr := l.fs.List(l.dir); listErr == nil && !slices.Contains(names, "log") {
			return nil
		}
		return err
	}
	text, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	var s state
	for len(text) >= 8 {
		size, sum := binary.LittleEndian.Uint32(text), binary.LittleEndian.Uint32(text[4:])
		text = text[8:]
		if uint64(size) > uint64(len(text)) {
			break
		}
		if size == 0 || crc32.ChecksumIEEE(text[:size]) != sum {
			break
		}
		var r logRecord
		if err := gob.NewDecoder(bytes.NewReader(text[:size])).Decode(&r); err != nil {
			return err
		}
		text = text[size:]
		for _, e := range r.All {
			s.revision = e.Revision
			s.change(sets(string(e.Key), string(e.Value)))
		}
		s.revision = r.Revision
		s.change(&store.Batch{Ops: r.Ops})
	}
	if l.without == losesRevision {
		s.revision = 0
	}
	l.now, l.durable = s, s
	return nil
}

// rewrite begins a new file with all that there is.
func (l *logStore) rewrite() error {
	if l.file != nil {
		_ = l.file.Close() // it is given up
		l.file = nil
	}
	r := logRecord{Revision: l.now.revision}
	l.now.tree.walk(store.Range{}, func(n *node) bool {
		r.All = append(r.All, store.Entry{Key: n.key, Value: n.value, Revision: n.revision})
		return true
	})
	next := l.path() + ".new"
	f, err := l.fs.Create(next, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = l.write(f, r)
	if err == nil {
		err = l.fs.Rename(next, l.path())
	}
	if err == nil {
		err = l.syncFolder(l.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.broken = f, false
	return nil
}

func (l *logStore) write(f vfs.File, r logRecord) error {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(r); err != nil {
		return err
	}
	text := binary.LittleEndian.AppendUint32(nil, uint32(body.Len()))
	text = binary.LittleEndian.AppendUint32(text, crc32.ChecksumIEEE(body.Bytes()))
	if _, err := f.Write(append(text, body.Bytes()...)); err != nil {
		return err
	}
	if l.without == syncsNothing {
		return nil
	}
	return f.Sync()
}

func (l *logStore) append(r logRecord) error {
	if l.broken {
		if l.without == staysBroken {
			return errors.New("it was broken before")
		}
		if err := l.rewrite(); err != nil {
			return err
		}
	}
	records := []logRecord{r}
	if l.without == writesHalves {
		records = nil
		for i := range r.Ops {
			records = append(records, logRecord{Revision: r.Revision, Ops: r.Ops[i : i+1]})
		}
	}
	for _, r := range records {
		if err := l.write(l.file, r); err != nil {
			l.broken = true
			return err
		}
	}
	return nil
}

func (l *logStore) Apply(b *store.Batch) (*store.Commit, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, store.ErrClosed
	}
	for _, c := range b.Conditions {
		if l.now.get(c.Key).Revision != c.Revision {
			return nil, store.ErrConflict
		}
	}
	if !b.Empty() {
		err := l.append(logRecord{Revision: l.now.revision + 1, Ops: b.Ops})
		switch {
		case err == nil || l.without == overlooksErrors:
		case l.without == hangsOnErrors:
			return store.NewCommit(l.now.revision + 1), nil
		case l.without == tellsNoCode:
			return nil, err
		default:
			if l.without == seesTooEarly {
				_, _ = l.Memory.Apply(b) // the vice
			}
			return nil, store.Errorf(503, err, "The disk can't be written; free some space, or try again")
		}
	}
	return l.Memory.Apply(b)
}

func (l *logStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return store.ErrClosed
	}
	l.closed = true
	var err error
	if l.broken && l.without == virtuous {
		err = l.rewrite() // so that nothing comes back that no reader has seen
	}
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return errors.Join(err, l.lock.Close(), l.Memory.Close())
}
