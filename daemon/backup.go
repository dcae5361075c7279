package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"kernos/capability/lifecycle"
	"kernos/store"
	"kernos/store/archive"
	"kernos/store/blobs"
	"kernos/store/pebble"
)

// backup writes a backup of the state to out, as it is at one moment. A process may have the store
// open and keep writing. The version is that of kernos. A key, which may be nil, is put in as it is.
func (h Home) backup(ctx context.Context, kept *blobs.Dir, version string, key *archive.Key, out io.Writer) (lifecycle.Backup, error) {
	b := backup{home: h, blobs: kept}
	w, err := b.write(ctx, version, key, out)
	if err != nil {
		return lifecycle.Backup{}, err
	}
	made := lifecycle.Backup{Origin: h.Origin, Entries: w.Entries, Blobs: w.Blobs, Missing: b.damaged}
	if _, err := os.Stat(h.Key()); err == nil && key == nil {
		made.KeyFile = h.Key()
	}
	return made, nil
}

// maxMissing is how many blobs a backup reports as missing.
const maxMissing = 50

// A backup is one run of [Home.backup].
type backup struct {
	home    Home
	blobs   *blobs.Dir
	damaged []string // the paths of blobs that are left out
}

// reference is a blob that something refers to.
type reference struct {
	hash   blobs.Hash
	needed bool // a value of the memory refers to the blob
}

func (b *backup) write(ctx context.Context, version string, key *archive.Key, out io.Writer) (w *archive.Writer, err error) {
	// The state that is written may refer to blobs that the running kernel no longer needs.
	release, err := b.home.keepBlobs()
	switch {
	case err == nil:
		defer release()
	case !errors.Is(err, fs.ErrNotExist): // without a directory there is no store either
		return nil, err
	}
	w, err = archive.NewWriter(out, archive.Header{Origin: b.home.Origin, Created: time.Now().UTC(), Kernos: version, Key: key})
	if err != nil {
		return nil, err
	}
	var referred []reference
	err = pebble.Export(b.home.Store(), os.TempDir(), func(e store.Entry) error {
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
		return nil, err // the archive gets no end, so that it isn't taken for a complete backup
	}
	return w, w.Close()
}

// blob writes one blob. One that is damaged would make the whole backup unreadable, and is
// left out.
func (b *backup) blob(w *archive.Writer, r reference) error {
	h := r.hash
	f, err := b.blobs.Open(h)
	if errors.Is(err, fs.ErrNotExist) {
		if r.needed {
			b.leaveOut(h)
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
		b.leaveOut(h)
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

func (b *backup) leaveOut(h blobs.Hash) {
	if len(b.damaged) < maxMissing {
		b.damaged = append(b.damaged, b.blobs.Path(h))
	}
}
