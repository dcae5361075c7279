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

// Restore makes the content of a backup, read from in if its name is "-", the state of its
// origin. If anyOrigin is false, that must be the origin of the home. State that is there is
// moved aside if replace is true, and refused otherwise. A daemon that serves it is ended first,
// and started again afterwards. A sealing key in the backup is opened with a passphrase; if withKey
// is nil, it is left out.
func Restore(ctx context.Context, target daemon.Home, anyOrigin bool, name string, replace bool, withKey Passphrase, in io.Reader, report io.Writer) (err error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("%w; name a file that kernos backup has written", err)
		}
		defer func() { _ = f.Close() }()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory; name a file that kernos backup has written", name)
		}
		in = f
	}
	r, err := archive.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	if !anyOrigin && target.Origin != r.Header.Origin {
		return fmt.Errorf("%s is a backup of %s, and KERNOS_ORIGIN says %s; set KERNOS_ORIGIN to the former, or unset it", name, r.Header.Origin, target.Origin)
	}
	target.Origin = r.Header.Origin
	home, dir := target.Origins(), target.State()
	occupied, err := notEmpty(dir)
	if err != nil {
		return err
	}
	p := findPause(target)
	defer func() { err = errors.Join(err, p.end(report)) }()
	if occupied && !replace && p.daemon.PID != 0 {
		return fmt.Errorf("there is state of %s already in %s, and the daemon (process %d) serves it; --replace ends the daemon, moves the state aside, and starts the daemon again", target.Origin, dir, p.daemon.PID)
	}
	if occupied && !replace {
		return fmt.Errorf("there is state of %s already in %s; --replace moves it aside", r.Header.Origin, dir)
	}
	var key []byte
	if r.Header.Key != nil && withKey != nil {
		if key, err = openKey(r.Header.Key, r.Header.Origin, withKey); err != nil {
			return err
		}
		defer clear(key)
	}
	unlock, err := pebble.Lock(target.Store())
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
	if err := target.Make(); err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	removeStale(home)
	fresh, err := os.MkdirTemp(home, ".restore-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	if free, ok := freeSpace(home); ok {
		r.Limit(free - free/10)
	}
	waits, err := readBackup(ctx, r, fresh)
	if err != nil {
		if _, ok := errors.AsType[*archive.TooLarge](err); ok {
			err = fmt.Errorf("%w on the disk of %s; make room there", err, home)
		}
		return fmt.Errorf("%s: %w; nothing was changed", name, err)
	}
	if unlock == nil {
		if unlock, err = p.begin(ctx, report); err != nil {
			return err
		}
	}
	freshKey := filepath.Join(fresh, filepath.Base(target.Key()))
	if key != nil {
		if err := durable.WriteFile(freshKey, key); err != nil {
			return fmt.Errorf("the sealing key can't be written: %w; nothing was changed", err)
		}
	}
	if occupied {
		// Without the key nothing can be opened that was sealed with it. One in the backup goes first.
		if err := os.Link(target.Key(), freshKey); err != nil && key == nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the key file can't be kept: %w; nothing was changed", err)
		}
		if err := keepClients(target.Clients(), filepath.Join(fresh, filepath.Base(target.Clients()))); err != nil {
			return fmt.Errorf("what kernos mcp install --undo needs can't be kept: %w; nothing was changed", err)
		}
		aside := beside(dir)
		if err := swap(fresh, dir, aside, exchange); err != nil {
			return fmt.Errorf("%w; nothing was changed", err)
		}
		moved = true
		fmt.Fprintf(report, "what was there is now in %s\n", aside)
	} else {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Rename(fresh, dir); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(home); err != nil {
		return err
	}
	switch {
	case key != nil:
		fmt.Fprintf(report, "the sealing key is now in %s\n", target.Key())
	case r.Header.Key != nil:
		fmt.Fprintln(report, "the sealing key in the backup was left out")
	}
	fmt.Fprintf(report, "%s: %d entries and %d blobs of %s, as of %s\n", name, r.Entries, r.Blobs, r.Header.Origin, r.Header.Created.Local().Format(time.DateTime))
	if waits.turns {
		fmt.Fprintln(report, "open turns of sessions wait, since what they have done after the backup isn't known; Session.List with the status waiting names them, and Session.Continue lets one go on")
	}
	if waits.jobs {
		fmt.Fprintln(report, "schedules are paused, and jobs that were running wait, since what they have done after the backup isn't known; kernos job list shows them, and kernos job resume lets them go on")
	}
	return nil
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

// waiting is what of a restored store doesn't go on by itself.
type waiting struct{ jobs, turns bool }

// beside returns an unused name for the old state.
func beside(dir string) string {
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
