package pebble

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"kernos/internal/backoff"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A disk is the file system under Pebble. Pebble ends the process when a write
// to its log, its manifest or a marker fails; this file system does not let it know. It
// repeats what failed until it succeeds, and meanwhile reports to health, so that writers
// are refused and reads continue.
//
// Nothing can be repeated for ever when the engine is opened or closed. Then the disk is
// frozen: from that moment on nothing reaches it, as if the power had been cut, while
// Pebble gets no errors. What is on the disk then is what a crash at
// that moment would have left, and Pebble recovers from a crash.
//
// Errors of tables are passed on, since Pebble tries again by itself, but slowly.
type disk struct {
	vfs.FS
	health *health

	// overlay has the files that were made after the disk was frozen.
	overlay *vfs.MemFS

	mu      sync.Mutex
	opening bool  // nothing is repeated, the first failure freezes
	cause   error // why it was frozen
	frozen  chan struct{}
}

// Pebble's retries are kept apart by this.
const tablePause = 50 * time.Millisecond

// maxUnsynced is how much of a file is kept for being written again.
const maxUnsynced = 4 << 20

func newDisk(fs vfs.FS, h *health) *disk {
	return &disk{FS: fs, health: h, overlay: vfs.NewMem(), opening: true, frozen: make(chan struct{})}
}

// opened ends the time in which the first failure freezes the disk. It returns it, if
// there was one.
func (d *disk) opened() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opening = false
	return d.cause
}

// freeze keeps everything that follows from the disk.
func (d *disk) freeze(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freezeLocked(cause)
}

// freezeOpening freezes a disk that is being opened, and reports whether it is. The goroutine that
// opens the disk asks afterwards, so an error must not come between: it would freeze an engine
// that is taken for a good one.
func (d *disk) freezeOpening(cause error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.opening {
		return false
	}
	d.freezeLocked(cause)
	return true
}

func (d *disk) freezeLocked(cause error) {
	// From here on calls report successes that didn't happen, so health must fail first.
	d.health.update(func() { d.health.final = cause })
	if d.cause == nil {
		d.cause = cause
		close(d.frozen)
	}
}

func (d *disk) isFrozen() bool {
	select {
	case <-d.frozen:
		return true
	default:
		return false
	}
}

// insist repeats a call until it succeeds, or until the disk is frozen: then it returns
// false.
func (d *disk) insist(try func() error) bool {
	if d.isFrozen() {
		return false
	}
	if err := try(); err != nil {
		return d.persist(err, try)
	}
	return true
}

// persist is insist for a call that has failed.
func (d *disk) persist(err error, try func() error) bool {
	if d.freezeOpening(err) {
		return false
	}
	h := d.health
	h.update(func() { h.insisting++; h.insistErr = err })
	defer h.update(func() { h.insisting-- })
	pauses := backoff.Backoff{First: 2 * time.Millisecond, Longest: 100 * time.Millisecond}
	for {
		if !pauses.Wait(d.frozen) {
			return false
		}
		if err := try(); err == nil {
			return true
		} else {
			h.update(func() { h.insistErr = err })
		}
	}
}

// tolerate is for calls whose errors Pebble survives: it slows down its retries.
func (d *disk) tolerate(err error) error {
	if err == nil {
		return nil
	}
	// A flush that fails is repeated by Pebble, and Open waits for it; and if
	// Pebble's Open fails late, its compactions meet what it has closed.
	if d.freezeOpening(err) {
		return nil
	}
	select {
	case <-time.After(tablePause):
	case <-d.frozen:
	}
	return err
}

// settle makes the names in the directory of a file last.
func (d *disk) settle(name string) {
	d.insist(func() error { return syncDir(d.FS, d.FS.PathDir(name)) })
}

func isMarker(fs vfs.FS, name string) bool { return strings.HasPrefix(fs.PathBase(name), "marker.") }

// vital reports whether Pebble dies of a failure with the file.
func vital(fs vfs.FS, name string) bool {
	base := fs.PathBase(name)
	return strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || isMarker(fs, name)
}

// Create makes a file.
func (d *disk) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	if !vital(d.FS, name) {
		if d.isFrozen() {
			return d.createInOverlay(name, category)
		}
		if f, err = d.FS.Create(name, category); err == nil {
			return &tableFile{File: f, d: d}, nil
		}
		if d.tolerate(err) != nil {
			return nil, err
		}
		return d.createInOverlay(name, category)
	}
	if isMarker(d.FS, name) {
		d.settle(name) // the file that the marker names must be durable before the marker is
	}
	if !d.insist(func() error { f, err = d.FS.Create(name, category); return err }) {
		return d.createInOverlay(name, category)
	}
	return &vitalFile{File: f, d: d, name: name, category: category}, nil
}

func (d *disk) createInOverlay(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == "pebble-compaction" || category == "pebble-blob-file-rewrite" {
		// No caller waits for a compaction, and its file may be large. Pebble tries again at once.
		<-time.After(tablePause)
		return nil, syscall.EROFS
	}
	if err := d.overlay.MkdirAll(d.overlay.PathDir(name), 0o700); err != nil {
		return nil, err
	}
	return d.overlay.Create(name, category)
}

// ReuseForWrite makes a log of an older one.
func (d *disk) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	if !d.insist(func() error {
		f, err = d.FS.ReuseForWrite(old, name, category)
		if err == nil {
			return nil
		}
		if _, missing := d.FS.Stat(old); missing != nil && os.IsNotExist(missing) {
			// It was renamed and could not be opened, or is gone.
			f, err = d.FS.Create(name, category)
		}
		return err
	}) {
		return d.createInOverlay(name, category)
	}
	return &vitalFile{File: f, d: d, name: name, category: category}, nil
}

// OpenDir opens a directory for syncing.
func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &vitalDir{File: f, d: d}, nil
}

// Open opens a file for reading.
func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if d.isFrozen() {
		if f, err := d.overlay.Open(name, opts...); err == nil {
			return f, nil
		}
	}
	return d.FS.Open(name, opts...)
}

// OpenReadWrite opens a file for both.
func (d *disk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if d.isFrozen() {
		return nil, syscall.EROFS
	}
	return d.FS.OpenReadWrite(name, category, opts...)
}

// Stat describes a file.
func (d *disk) Stat(name string) (vfs.FileInfo, error) {
	if d.isFrozen() {
		if info, err := d.overlay.Stat(name); err == nil {
			return info, nil
		}
	}
	return d.FS.Stat(name)
}

// Remove removes a file.
func (d *disk) Remove(name string) error {
	if isMarker(d.FS, name) {
		d.settle(name) // the marker that replaces this one must be durable first
	}
	return d.unlessFrozen(func() error { return d.FS.Remove(name) }, func() { _ = d.overlay.Remove(name) })
}

// RemoveAll removes a directory.
func (d *disk) RemoveAll(name string) error {
	return d.unlessFrozen(func() error { return d.FS.RemoveAll(name) }, func() {})
}

// Rename renames a file.
func (d *disk) Rename(old, name string) error {
	return d.unlessFrozen(func() error { return d.FS.Rename(old, name) }, func() { _ = d.overlay.Rename(old, name) })
}

// Link gives a file another name.
func (d *disk) Link(old, name string) error {
	return d.unlessFrozen(func() error { return d.FS.Link(old, name) }, func() { _ = d.overlay.Link(old, name) })
}

func (d *disk) unlessFrozen(do func() error, pretend func()) error {
	if d.isFrozen() {
		pretend()
		return nil
	}
	err := do()
	if err != nil && d.freezeOpening(err) {
		pretend()
		return nil
	}
	return err
}

// List returns the names in a directory.
func (d *disk) List(dir string) ([]string, error) {
	names, err := d.FS.List(dir)
	if err != nil && d.freezeOpening(err) {
		return nil, nil
	}
	return names, err
}

// Unwrap returns the file system below.
func (d *disk) Unwrap() vfs.FS { return d.FS }

// A vitalFile is a file whose failures Pebble must not see. It keeps what has not
// been synced: after a failed sync, the kernel may have dropped it, and a second sync
// would succeed without having written anything.
type vitalFile struct {
	vfs.File
	d        *disk
	name     string
	category vfs.DiskWriteCategory

	at       bool   // File was opened again: it wants WriteAt
	synced   int64  // bytes at the front that are on the disk
	unsynced []byte // bytes after synced
}

func (f *vitalFile) Write(p []byte) (int, error) {
	if f.d.isFrozen() {
		return len(p), nil
	}
	offset := f.synced + int64(len(f.unsynced))
	f.unsynced = append(f.unsynced, p...)
	var err error
	if f.at {
		_, err = f.File.WriteAt(f.unsynced[offset-f.synced:], offset)
	} else {
		_, err = f.File.Write(p)
	}
	if err != nil {
		f.restore(err)
	} else if len(f.unsynced) > maxUnsynced {
		f.sync()
	}
	return len(p), nil
}

// restore writes everything again that may be missing on the disk.
func (f *vitalFile) restore(err error) {
	if !f.d.persist(err, func() error {
		again, err := f.d.FS.OpenReadWrite(f.name, f.category)
		if err != nil {
			return err
		}
		if len(f.unsynced) > 0 {
			_, err = again.WriteAt(f.unsynced, f.synced)
		}
		if err == nil {
			err = again.Sync()
		}
		if err != nil {
			_ = again.Close()
			return err
		}
		_ = f.File.Close()
		f.File, f.at = again, true
		return nil
	}) {
		f.unsynced = nil
		return
	}
	f.forget()
}

func (f *vitalFile) sync() {
	if f.d.isFrozen() {
		return
	}
	if err := f.File.SyncData(); err != nil {
		f.restore(err)
		return
	}
	f.forget()
}

func (f *vitalFile) forget() {
	f.synced += int64(len(f.unsynced))
	f.unsynced = f.unsynced[:0]
	if cap(f.unsynced) > maxUnsynced {
		f.unsynced = nil
	}
}

func (f *vitalFile) Sync() error     { f.sync(); return nil }
func (f *vitalFile) SyncData() error { f.sync(); return nil }

// SyncTo promises nothing, so it need not do anything.
func (f *vitalFile) SyncTo(int64) (bool, error) { return false, nil }

// Preallocate ignores errors: space that is allocated ahead only makes writing faster.
func (f *vitalFile) Preallocate(offset, length int64) error {
	if !f.d.isFrozen() {
		_ = f.File.Preallocate(offset, length)
	}
	return nil
}

// Stat is asked for the size of a log that is used again, only.
func (f *vitalFile) Stat() (info vfs.FileInfo, err error) {
	if !f.d.insist(func() error { info, err = f.File.Stat(); return err }) {
		return f.File.Stat()
	}
	return info, nil
}

// Close never fails: Pebble syncs before it closes what must last.
func (f *vitalFile) Close() error {
	_ = f.File.Close()
	return nil
}

// A vitalDir is a directory whose syncs succeed in the end.
type vitalDir struct {
	vfs.File
	d *disk
}

func (f *vitalDir) Sync() error {
	f.d.insist(f.File.Sync)
	return nil
}

func (f *vitalDir) SyncData() error { return f.Sync() }

// A tableFile is a file whose failures Pebble survives.
type tableFile struct {
	vfs.File
	d *disk
}

func (f *tableFile) Write(p []byte) (int, error) {
	if f.d.isFrozen() {
		return len(p), nil
	}
	n, err := f.File.Write(p)
	if err = f.d.tolerate(err); err == nil {
		n = len(p)
	}
	return n, err
}

func (f *tableFile) Sync() error     { return f.do(f.File.Sync) }
func (f *tableFile) SyncData() error { return f.do(f.File.SyncData) }

func (f *tableFile) SyncTo(length int64) (full bool, err error) {
	err = f.do(func() error { full, err = f.File.SyncTo(length); return err })
	return full, err
}

func (f *tableFile) Close() error { return f.d.tolerate(f.File.Close()) }

func (f *tableFile) do(call func() error) error {
	if f.d.isFrozen() {
		return nil
	}
	return f.d.tolerate(call())
}

// eventListener returns the listener by which Pebble reports to health.
func (h *health) eventListener() *crdb.EventListener {
	return &crdb.EventListener{
		WALCreated: func(info crdb.WALCreateInfo) {
			h.update(func() { h.unflushed++ })
		},
		FlushEnd: func(info crdb.FlushInfo) {
			failed := flushFailed(info.Err)
			h.update(func() {
				if failed {
					h.flushErr = info.Err
					return
				}
				h.flushErr = nil
				h.unflushed = max(0, h.unflushed-info.Input)
			})
		},
		CompactionEnd: func(info crdb.CompactionInfo) { h.update(func() { h.compactEr = info.Err }) },
		WriteStallBegin: func(crdb.WriteStallBeginInfo) {
			h.update(func() { h.stalled = true })
		},
		WriteStallEnd: func() { h.update(func() { h.stalled = false }) },
	}
}
