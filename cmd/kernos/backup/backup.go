// Package backup writes the state of an origin into one file, and makes the content of such a
// file the state of its origin.
package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kernos/daemon"
	"kernos/internal/durable"
	"kernos/store"
	"kernos/store/archive"
	"kernos/store/blobs"
	"kernos/store/pebble"
)

// Write writes the state of a home into a file, or to out if its name is "-". The version is
// that of kernos. The sealing key is in it, sealed with a passphrase, if withKey isn't nil.
func Write(ctx context.Context, home daemon.Home, version, name string, withKey Passphrase, out, report io.Writer) (err error) {
	b := writing{home: home, version: version, spare: filepath.Dir(name)}
	if withKey != nil {
		if b.key, err = sealKey(home, withKey); err != nil {
			return err
		}
	}
	defer func() {
		if _, missing := os.Stat(home.Key()); err == nil && withKey == nil && missing == nil {
			fmt.Fprintf(report, "the sealing key isn't in the backup; keep a copy of %s, or put it in with --with-key\n", home.Key())
		}
	}()
	if name == "-" {
		b.spare = os.TempDir()
		if err := b.write(ctx, out); err != nil {
			return err
		}
		return b.incomplete()
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s exists and isn't a regular file; name another one, or - for standard output", name)
	}
	fresh, err := durable.Temporary(filepath.Dir(name), func(f io.Writer) error {
		w := bufio.NewWriterSize(f, 256<<10)
		return cmp.Or(b.write(ctx, w), w.Flush())
	})
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Op == "open" && filepath.Dir(p.Path) == filepath.Dir(name) {
		return fmt.Errorf("can't create a file in %s: %w; create that directory, or name a file elsewhere", filepath.Dir(name), p.Err)
	}
	if err != nil {
		return err
	}
	if err := durable.Rename(fresh, name); err != nil {
		return errors.Join(err, durable.Remove(fresh))
	}
	fmt.Fprintf(report, "%s: %d entries and %d blobs of %s\n", name, b.summary.Entries, b.summary.Blobs, home.Origin)
	return b.incomplete()
}

// writing is one run of Write.
type writing struct {
	home    daemon.Home
	version string
	key     *archive.Key // or nil
	spare   string       // where there is room if the disk of the home is full
	blobs   *blobs.Dir
	summary archive.Summary
	damaged []string // the paths of blobs that are left out
}

// reference is a blob that something refers to.
type reference struct {
	hash   blobs.Hash
	needed bool // by a value of the memory
}

// incomplete returns the error for a backup that was written without some blobs.
func (b *writing) incomplete() error {
	if len(b.damaged) == 0 {
		return nil
	}
	return fmt.Errorf("the backup is written, without blobs that are damaged or missing: %s", strings.Join(b.damaged, ", "))
}

func (b *writing) write(ctx context.Context, out io.Writer) (err error) {
	if b.blobs, err = blobs.New(filepath.Join(b.home.State(), "blobs")); err != nil {
		return err
	}
	// The state that is written may refer to blobs that the running kernel no longer needs.
	release, err := b.home.KeepBlobs()
	switch {
	case err == nil:
		defer release()
	case !errors.Is(err, fs.ErrNotExist): // without a directory there is no store either
		return err
	}
	w, err := archive.NewWriter(out, archive.Header{Origin: b.home.Origin, Created: time.Now().UTC(), Kernos: b.version, Key: b.key})
	if err != nil {
		return err
	}
	var referred []reference
	err = pebble.Export(b.home.Store(), b.spare, func(e store.Entry) error {
		const owner = 1 + len(blobs.Hash{})
		if e.Key[0] == store.SpaceBlobs && len(e.Key) > owner {
			h := blobs.Hash(e.Key[1:owner])
			if n := len(referred); n == 0 || referred[n-1].hash != h {
				referred = append(referred, reference{hash: h})
			}
			// A message may mention the path of a blob that never existed. A value needs its blob.
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
		return err // without an end, so that it isn't taken for a complete backup
	}
	err = w.Close()
	b.summary = w.Summary
	return err
}

// blob writes one blob. One that is damaged would make the whole backup unreadable, and is
// left out.
func (b *writing) blob(w *archive.Writer, r reference) error {
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
