package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	systemcalls "golang.org/x/sys/unix"

	"kernos/capability/job"
	"kernos/capability/session"
	"kernos/daemon"
	"kernos/internal/durable"
	"kernos/store"
	"kernos/store/archive"
	"kernos/store/blobs"
	"kernos/store/pebble"
)

// A Restore makes the content of a backup the state of the backup's origin. A daemon that serves
// that origin is ended first, and started again afterwards.
type Restore struct {
	Name      string // name of the file; "-" reads In
	In        io.Reader
	Home      daemon.Home // the home's origin must be the backup's, unless AnyOrigin is set
	AnyOrigin bool
	Replace   bool       // move existing state aside; without it, existing state is an error
	Key       Passphrase // opens the sealing key in the backup; nil leaves the key out
	Report    io.Writer  // gets what was done
}

// Run restores. The backup is read to its end and checked before anything is changed.
func (o Restore) Run(ctx context.Context) (err error) {
	in, err := o.open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	r, err := archive.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	defer r.Close()
	if !o.AnyOrigin && o.Home.Origin != r.Header.Origin {
		return fmt.Errorf("%s is a backup of %s, and KERNOS_ORIGIN says %s; set KERNOS_ORIGIN to the former, or unset it", o.Name, r.Header.Origin, o.Home.Origin)
	}
	o.Home.Origin = r.Header.Origin
	if o.Home.IsMember() {
		return fmt.Errorf("%s is a member of a cluster, whose other nodes have the state, too: stop all nodes, run kernos cluster leave and then kernos restore on one, and begin a new cluster with it", o.Home.Dir)
	}
	p := findPause(o.Home)
	defer func() { err = errors.Join(err, p.end(o.Report)) }()
	occupied, err := o.occupied(p.daemon.PID)
	if err != nil {
		return err
	}
	key, err := o.openKey(&r.Header)
	if err != nil {
		return err
	}
	defer clear(key)
	unlock, err := pebble.Lock(o.Home.Store())
	if err != nil && !(errors.Is(err, store.ErrInUse) && p.daemon.PID != 0) {
		return err
	}
	moved := false
	defer func() {
		// After a move another process may have the lock of this place. The lock of the old
		// state ends with this process.
		if !moved && unlock != nil {
			unlock()
		}
	}()
	fresh, waits, err := o.unpack(ctx, r)
	defer func() { _ = os.RemoveAll(fresh) }()
	if err != nil {
		return err
	}
	if unlock == nil {
		if unlock, err = p.begin(ctx, o.Report); err != nil {
			return err
		}
	}
	if moved, err = o.install(fresh, key, occupied); err != nil {
		return err
	}
	o.reportResult(r, key != nil, waits)
	return nil
}

func (o *Restore) open() (io.ReadCloser, error) {
	if o.Name == "-" {
		return io.NopCloser(o.In), nil
	}
	f, err := os.Open(o.Name)
	if err != nil {
		return nil, fmt.Errorf("%w; name a file that kernos backup has written", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return nil, fmt.Errorf("%s is a directory; name a file that kernos backup has written", o.Name)
	}
	return f, nil
}

// occupied reports whether there is state already, which a daemon serves if pid isn't 0. It is
// an error unless that state is to be replaced.
func (o *Restore) occupied(pid int) (bool, error) {
	dir := o.Home.State()
	occupied, err := notEmpty(dir)
	switch {
	case err != nil || !occupied || o.Replace:
		return occupied, err
	case pid != 0:
		return true, fmt.Errorf("there is state of %s already in %s, and the daemon (process %d) serves it; --replace ends the daemon, moves the state aside, and starts the daemon again", o.Home.Origin, dir, pid)
	}
	return true, fmt.Errorf("there is state of %s already in %s; --replace moves it aside", o.Home.Origin, dir)
}

// openKey returns the sealing key in the backup, or nil if there is none or if it is left out.
func (o *Restore) openKey(h *archive.Header) ([]byte, error) {
	if h.Key == nil || o.Key == nil {
		return nil, nil
	}
	return openKey(h.Key, h.Origin, o.Key)
}

// unpack reads the backup into a new directory beside the state, which is to be removed if it
// isn't moved. It reports what of the content waits for its owner.
func (o *Restore) unpack(ctx context.Context, r *archive.Reader) (fresh string, waits waiting, err error) {
	if err := o.Home.Make(); err != nil {
		return "", waits, err
	}
	origins := o.Home.Origins()
	if err := os.MkdirAll(origins, 0o700); err != nil {
		return "", waits, err
	}
	removeStale(origins)
	if fresh, err = os.MkdirTemp(origins, ".restore-*"); err != nil {
		return "", waits, err
	}
	if free, ok := freeSpace(origins); ok {
		r.Limit(free - free/10)
	}
	if waits, err = readBackup(ctx, r, fresh); err != nil {
		if _, ok := errors.AsType[*archive.TooLarge](err); ok {
			err = fmt.Errorf("%w on the disk of %s; make room there", err, origins)
		}
		err = fmt.Errorf("%s: %w; nothing was changed", o.Name, err)
	}
	return fresh, waits, err
}

// install makes the fresh directory the state, with a sealing key if there is one. It reports
// whether existing state has been moved aside.
func (o *Restore) install(fresh string, key []byte, occupied bool) (moved bool, err error) {
	freshKey := filepath.Join(fresh, filepath.Base(o.Home.Key()))
	if key != nil {
		if err := durable.WriteFile(freshKey, key); err != nil {
			return false, fmt.Errorf("the sealing key can't be written: %w; nothing was changed", err)
		}
	}
	dir := o.Home.State()
	if occupied {
		// Without the key nothing can be opened that was sealed with it. One in the backup goes first.
		if err := os.Link(o.Home.Key(), freshKey); err != nil && key == nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("the key file can't be kept: %w; nothing was changed", err)
		}
		if err := keepClients(o.Home.Clients(), filepath.Join(fresh, filepath.Base(o.Home.Clients()))); err != nil {
			return false, fmt.Errorf("what kernos mcp install --undo needs can't be kept: %w; nothing was changed", err)
		}
		aside := unusedName(dir)
		if err := swap(fresh, dir, aside, exchange); err != nil {
			return false, fmt.Errorf("%w; nothing was changed", err)
		}
		fmt.Fprintf(o.Report, "what was there is now in %s\n", aside)
	} else {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err := os.Rename(fresh, dir); err != nil {
			return false, err
		}
	}
	return occupied, durable.SyncDir(o.Home.Origins())
}

func (o *Restore) reportResult(r *archive.Reader, withKey bool, waits waiting) {
	switch {
	case withKey:
		fmt.Fprintf(o.Report, "the sealing key is now in %s\n", o.Home.Key())
	case r.Header.Key != nil:
		fmt.Fprintln(o.Report, "the sealing key in the backup was left out")
	}
	fmt.Fprintf(o.Report, "%s: %s of %s, as of %s\n", o.Name, counted(r.Entries, r.Blobs), r.Header.Origin, r.Header.Created.Local().Format(time.DateTime))
	if waits.turns {
		fmt.Fprintln(o.Report, "open turns of sessions wait, since what they have done after the backup isn't known; Session.List with the status waiting names them, and Session.Continue resumes one")
	}
	if waits.jobs {
		fmt.Fprintln(o.Report, "schedules are paused, and jobs that were running wait, since what they have done after the backup isn't known; kernos job list shows them, and kernos job resume resumes them")
	}
}

// keepClients links the records of installations in LLM clients, which are about files of this machine and in no backup.
func keepClients(from, to string) error {
	records, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Mkdir(to, 0o700)
	}
	for _, r := range records {
		if err == nil {
			err = os.Link(filepath.Join(from, r.Name()), filepath.Join(to, r.Name()))
		}
	}
	return err
}

// freeSpace returns how many bytes of a disk are free.
func freeSpace(dir string) (int64, bool) {
	var s systemcalls.Statfs_t
	err := systemcalls.Statfs(dir, &s)
	return int64(s.Bavail) * int64(s.Bsize), err == nil
}

// readBackup fills a new directory with the content of a backup, and checks that it can be
// opened. It reports what in it waits for its owner.
func readBackup(ctx context.Context, r *archive.Reader, dir string) (waits waiting, err error) {
	kept, err := blobs.New(filepath.Join(dir, "blobs"))
	if err != nil {
		return waits, err
	}
	err = pebble.Import(filepath.Join(dir, "store"), func() (store.Entry, bool, error) {
		for {
			item, err := r.Next()
			if ctx.Err() != nil {
				return store.Entry{}, false, ctx.Err()
			}
			if err == io.EOF {
				return store.Entry{}, false, nil
			}
			if err != nil {
				return store.Entry{}, false, err
			}
			if item.Content == nil {
				return item.Entry, true, nil
			}
			if _, err := kept.PutReader(item.Content, item.Size); err != nil {
				return store.Entry{}, false, err
			}
		}
	})
	if err != nil {
		return waits, err
	}
	engine, err := pebble.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return waits, err
	}
	var jobsErr, turnsErr error
	waits.jobs, jobsErr = job.Restored(engine)
	waits.turns, turnsErr = session.Restored(engine)
	return waits, errors.Join(jobsErr, turnsErr, engine.Close())
}

// waiting is the kinds of work of a restored store that a person has to resume.
type waiting struct{ jobs, turns bool }

// unusedName returns a name for the old state that no file has.
func unusedName(dir string) string {
	name := dir + ".before-" + time.Now().Format("20060102-150405")
	aside := name
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); err != nil {
			return aside
		}
		aside = fmt.Sprintf("%s-%d", name, n)
	}
}

// removeStale removes the directories of restores that were killed long ago.
func removeStale(home string) {
	left, _ := filepath.Glob(filepath.Join(home, ".restore-*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}

func notEmpty(dir string) (bool, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(names) > 0, err
}
