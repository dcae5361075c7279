package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/internal/durable"
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

The key file (key, beside the state), with which secrets are sealed where there is no
ssh-agent, is not in it: keep a copy of it elsewhere.

The file is compressed, has a checksum, and is readable by its owner only. It replaces
a file of the same name when it is complete. - writes to standard output.`,
		Example: "  kernos backup kernos.backup\n  kernos backup - | ssh elsewhere 'cat > kernos.backup'",
		Args:    oneFile("backup"),
		RunE: func(c *cobra.Command, args []string) error {
			return interruptible(c, func(ctx context.Context) error {
				return backup(ctx, args[0], c.OutOrStdout(), c.ErrOrStderr())
			})
		},
	}
}

func oneFile(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("say which file: kernos %s FILE", command)
		}
		return nil
	}
}

// interruptible lets a signal end what a command does, so that it can tidy up.
func interruptible(c *cobra.Command, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return &exit.Error{Status: exit.Interrupted}
	}
	return exit.Wrap(err)
}

// backup writes the state of the origin that the environment names.
func backup(ctx context.Context, name string, out, report io.Writer) error {
	home, err := settings.UsableHome()
	if err != nil {
		return err
	}
	origin := home.Origin
	b := saving{home: home, dir: home.State(), spare: filepath.Dir(name)}
	if name == "-" {
		b.spare = os.TempDir()
		if err := b.write(ctx, out, origin); err != nil {
			return err
		}
		return b.complaint()
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is there and is no file that could be replaced; name another one, or - for standard output", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".kernos-backup-*")
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err // the name in it is one that nobody has said
		}
		return fmt.Errorf("no file can be made in %s: %w; make that directory, or name a file elsewhere", filepath.Dir(name), err)
	}
	w := bufio.NewWriterSize(f, 256<<10)
	err = b.write(ctx, w, origin)
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
	if err := durable.SyncDir(filepath.Dir(name)); err != nil {
		return err
	}
	fmt.Fprintf(report, "%s: %d entries and %d blobs of %s\n", name, b.summary.Entries, b.summary.Blobs, origin)
	return b.complaint()
}

// saving is one run of kernos backup.
type saving struct {
	home    daemon.Home
	dir     string // of the origin
	spare   string // where there is room if the disk of dir is full
	blobs   *blobs.Dir
	summary archive.Summary
	damaged []string // the paths of blobs that are left out
}

// reference is a blob that something refers to.
type reference struct {
	hash   blobs.Hash
	needed bool // there is a value in it
}

// complaint is the error for a backup that is written and does not have everything.
func (b *saving) complaint() error {
	if len(b.damaged) == 0 {
		return nil
	}
	return fmt.Errorf("the backup is written, without blobs that are damaged or missing: %s", strings.Join(b.damaged, ", "))
}

func (b *saving) write(ctx context.Context, out io.Writer, origin store.Origin) (err error) {
	if b.blobs, err = blobs.New(filepath.Join(b.dir, "blobs")); err != nil {
		return err
	}
	// The state that is written may refer to blobs that the running kernel needs no more.
	release, err := b.home.KeepBlobs()
	switch {
	case err == nil:
		defer release()
	case !errors.Is(err, fs.ErrNotExist): // without a directory there is no store either
		return err
	}
	w, err := archive.NewWriter(out, archive.Header{Origin: origin, Created: time.Now().UTC(), Kernos: version})
	if err != nil {
		return err
	}
	var referred []reference
	err = pebble.Export(filepath.Join(b.dir, "store"), b.spare, func(e store.Entry) error {
		const owner = 1 + len(blobs.Hash{})
		if e.Key[0] == store.SpaceBlobs && len(e.Key) > owner {
			h := blobs.Hash(e.Key[1:owner])
			if n := len(referred); n == 0 || referred[n-1].hash != h {
				referred = append(referred, reference{hash: h})
			}
			// A message may mention the path of a blob that never was. A value is one.
			if e.Key[owner] == store.SpaceMemory {
				referred[len(referred)-1].needed = true
			}
		}
		return errors.Join(w.Entry(e), ctx.Err())
	})
	for _, r := range referred {
		if err == nil {
			err = errors.Join(b.blob(w, r), ctx.Err())
		}
	}
	if err != nil {
		return err // without an end, so that nobody takes it for a whole backup
	}
	err = w.Close()
	b.summary = w.Summary
	return err
}

// blob writes one blob. One that is damaged would make the whole backup unreadable, and is
// left out.
func (b *saving) blob(w *archive.Writer, r reference) error {
	h := r.hash
	f, err := b.blobs.Open(h)
	if errors.Is(err, fs.ErrNotExist) {
		if r.needed {
			b.damaged = append(b.damaged, b.blobs.Path(h))
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err == nil && !bytes.Equal(sum.Sum(nil), h[:]) {
		b.damaged = append(b.damaged, b.blobs.Path(h))
		return nil
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	return w.Blob(h, size, f)
}
