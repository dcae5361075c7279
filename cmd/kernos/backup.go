package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"kernos/store"
	"kernos/store/archive"
	"kernos/store/blobs"
	"kernos/store/pebble"
)

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all state into one file, also while a kernel is running",
		Long: `Write the state of the origin (memory, journal, outcomes of idempotent commands, and
the blobs that they refer to) into one file, as it is at one moment. A kernel that is
running goes on; what it has acknowledged before the backup began is in it.

The file is compressed, has a checksum, and is readable by its owner only. It replaces
a file of the same name when it is complete. - writes to standard output.`,
		Example: "  kernos backup kernos.backup\n  kernos backup - | ssh elsewhere 'cat > kernos.backup'",
		Args:    oneFile("backup"),
		RunE: func(c *cobra.Command, args []string) error {
			return failed(backup(args[0], c.OutOrStdout(), c.ErrOrStderr()))
		},
	}
}

func restoreCommand() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring back the state that a backup holds",
		Long: `Read a file that kernos backup has written and make it the state of the origin that it
was made of. The file is read to its end and checked before anything is changed. No
kernel may be running on the state that is replaced.

State that is there is not touched, unless --replace is given: then it is moved aside,
and the command says where to.`,
		Example: "  kernos restore kernos.backup\n  kernos restore --replace kernos.backup",
		Args:    oneFile("restore"),
		RunE: func(c *cobra.Command, args []string) error {
			return failed(restore(args[0], replace, c.InOrStdin(), c.ErrOrStderr()))
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "move state that is there aside")
	return c
}

func oneFile(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("say which file: kernos %s FILE", command)
		}
		return nil
	}
}

// backup writes the state of the origin that the environment names.
func backup(name string, out, report io.Writer) error {
	home, origin, err := place()
	if err != nil {
		return err
	}
	if name == "-" {
		_, err := writeBackup(out, home, origin)
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".kernos-backup-*")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 256<<10)
	summary, err := writeBackup(w, home, origin)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	fmt.Fprintf(report, "%s: %d entries and %d blobs of %s\n", name, summary.Entries, summary.Blobs, origin)
	return nil
}

func writeBackup(out io.Writer, home string, origin store.Origin) (archive.Summary, error) {
	dir := filepath.Join(home, origin.Folder())
	kept, err := blobs.New(filepath.Join(dir, "blobs"))
	if err != nil {
		return archive.Summary{}, err
	}
	w, err := archive.NewWriter(out, archive.Header{Origin: origin, Created: time.Now().UTC(), Kernos: version})
	if err != nil {
		return archive.Summary{}, err
	}
	var last blobs.Hash
	var referred []blobs.Hash
	err = pebble.Export(filepath.Join(dir, "store"), func(e store.Entry) error {
		if e.Key[0] == store.SpaceBlobs && len(e.Key) > len(last) {
			if h := blobs.Hash(e.Key[1 : 1+len(last)]); len(referred) == 0 || h != last {
				referred, last = append(referred, h), h
			}
		}
		return w.Entry(e)
	})
	for _, h := range referred {
		if err == nil {
			err = writeBlob(w, kept, h)
		}
	}
	return w.Summary, errors.Join(err, w.Close())
}

func writeBlob(w *archive.Writer, kept *blobs.Dir, h blobs.Hash) error {
	f, err := kept.Open(h)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // let go since the state that is written was read
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.Blob(h, info.Size(), f)
}

// restore makes the content of a backup the state of its origin.
func restore(name string, replace bool, in io.Reader, report io.Writer) error {
	home, origin, err := place()
	if err != nil {
		return err
	}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	r, err := archive.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	if os.Getenv("KERNOS_ORIGIN") != "" && origin != r.Header.Origin {
		return fmt.Errorf("%s is a backup of %s, and KERNOS_ORIGIN says %s; set it to the former, or unset it", name, r.Header.Origin, origin)
	}
	dir := filepath.Join(home, r.Header.Origin.Folder())
	occupied, err := notEmpty(dir)
	if err != nil {
		return err
	}
	if occupied && !replace {
		return fmt.Errorf("there is state of %s already in %s; --replace moves it aside", r.Header.Origin, dir)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(home, ".restore-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	if err := readBackup(r, fresh); err != nil {
		return fmt.Errorf("%s: %w; nothing was changed", name, err)
	}
	if occupied {
		aside, err := moveAside(dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(report, "what was there is now in %s\n", aside)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return err
	}
	if err := syncDir(home); err != nil {
		return err
	}
	fmt.Fprintf(report, "%s: %d entries and %d blobs of %s, as of %s\n", name, r.Entries, r.Blobs, r.Header.Origin, r.Header.Created.Local().Format(time.DateTime))
	return nil
}

// readBackup fills a new directory with what a backup holds.
func readBackup(r *archive.Reader, dir string) error {
	kept, err := blobs.New(filepath.Join(dir, "blobs"))
	if err != nil {
		return err
	}
	return pebble.Import(filepath.Join(dir, "store"), func() (store.Entry, bool, error) {
		for {
			item, err := r.Next()
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

// moveAside renames the directory of a state that no kernel is running on.
func moveAside(dir string) (string, error) {
	release, err := pebble.Lock(filepath.Join(dir, "store"))
	if err != nil {
		return "", err
	}
	defer release()
	aside := dir + ".before-" + time.Now().Format("20060102-150405")
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.before-%s-%d", dir, time.Now().Format("20060102-150405"), n)
	}
	return aside, os.Rename(dir, aside)
}

func notEmpty(dir string) (bool, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(names) > 0, err
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
