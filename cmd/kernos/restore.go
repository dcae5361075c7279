package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/settings"
	"kernos/internal/durable"
	"kernos/store"
	"kernos/store/archive"
	"kernos/store/blobs"
	"kernos/store/pebble"
)

func restoreCommand() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring back the state that a backup holds",
		Long: `Read a file that kernos backup has written and make it the state of the origin that it
was made of. The file is read to its end and checked before anything is changed.

State that is there is not touched, unless --replace is given: then it is moved aside,
and the command says where to. A daemon that serves it is ended first, as kernos stop
does, and started again in the background with the settings that it had; if something
fails meanwhile, with the state that it had.`,
		Example: "  kernos restore kernos.backup\n  kernos restore --replace kernos.backup",
		Args:    oneFile("restore"),
		RunE: func(c *cobra.Command, args []string) error {
			return interruptible(c, func(ctx context.Context) error {
				return restore(ctx, args[0], replace, c.InOrStdin(), c.ErrOrStderr())
			})
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "move state that is there aside")
	return c
}

// restore makes the content of a backup the state of its origin.
func restore(ctx context.Context, name string, replace bool, in io.Reader, report io.Writer) (err error) {
	target, err := settings.UsableHome()
	if err != nil {
		return err
	}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("%w; say which file kernos backup has written", err)
		}
		defer func() { _ = f.Close() }()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory; say which file kernos backup has written", name)
		}
		in = f
	}
	r, err := archive.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	if os.Getenv("KERNOS_ORIGIN") != "" && target.Origin != r.Header.Origin {
		return fmt.Errorf("%s is a backup of %s, and KERNOS_ORIGIN says %s; set it to the former, or unset it", name, r.Header.Origin, target.Origin)
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
		return p.occupied()
	}
	if occupied && !replace {
		return fmt.Errorf("there is state of %s already in %s; --replace moves it aside", r.Header.Origin, dir)
	}
	release, err := pebble.Lock(filepath.Join(dir, "store"))
	if err != nil && !p.needed(err) {
		return err
	}
	moved := false
	defer func() {
		// What it locks may have moved. Then its place is another's, who may have a lock
		// there, and this one ends with the process.
		if !moved && release != nil {
			release()
		}
	}()
	if err := settings.Explain(target.Make()); err != nil {
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
	if err := readBackup(ctx, r, fresh); err != nil {
		return fmt.Errorf("%s: %w; nothing was changed", name, err)
	}
	if release == nil {
		if release, err = p.begin(ctx, report); err != nil {
			return err
		}
	}
	if occupied {
		// It is in no backup, and without it nothing opens that was sealed with it.
		if err := os.Link(target.Key(), filepath.Join(fresh, filepath.Base(target.Key()))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the key file can't be kept: %w; nothing was changed", err)
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
	fmt.Fprintf(report, "%s: %d entries and %d blobs of %s, as of %s\n", name, r.Entries, r.Blobs, r.Header.Origin, r.Header.Created.Local().Format(time.DateTime))
	return nil
}

// readBackup fills a new directory with what a backup holds.
func readBackup(ctx context.Context, r *archive.Reader, dir string) error {
	kept, err := blobs.New(filepath.Join(dir, "blobs"))
	if err != nil {
		return err
	}
	return pebble.Import(filepath.Join(dir, "store"), func() (store.Entry, bool, error) {
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
}

// beside is a name for the old state that nothing has yet.
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

// removeStale removes what a restore has left that was killed long ago.
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
