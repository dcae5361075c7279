package blobs

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kernos/internal/durable"
	"kernos/store"
)

// A Depot has copies of blobs where the other nodes of a cluster find them. It is safe for concurrent use.
type Depot interface {
	// Put keeps a copy of a blob, unless the depot has one. When it returns nil, the copy can't be lost.
	Put(ctx context.Context, h Hash, r io.Reader) error

	// Get writes the copy of a blob to w. That of a blob which the depot doesn't have is an [fs.ErrNotExist]. The
	// caller checks what was written.
	Get(ctx context.Context, h Hash, w io.Writer) error
}

const (
	depotTime  = 2 * time.Minute // how long one blob may take, one way
	maxFetches = 4               // how many blobs are fetched at once; others wait
)

// shared is what a directory has of a depot.
type shared struct {
	depot Depot         // nil on one machine
	slots chan struct{} // has a token for each blob that is being fetched

	mu      sync.Mutex
	fetches map[Hash]*fetch // guarded by mu
}

// A fetch brings one blob, for all callers that need it.
type fetch struct {
	done chan struct{}
	err  error // set before done is closed
}

// SetDepot makes the directory a part of a cluster: a blob is in the depot before Put or PutReader returns its name, and
// a blob that isn't here is fetched when it is first needed. It is called before the directory is used.
func (d *Dir) SetDepot(depot Depot) {
	d.depot, d.slots, d.fetches = depot, make(chan struct{}, maxFetches), make(map[Hash]*fetch)
}

// Share puts a blob into the depot.
func (d *Dir) Share(h Hash) error {
	if d.depot == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), depotTime)
	defer cancel()
	f, err := os.Open(d.Path(h))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := d.depot.Put(ctx, h, f); err != nil {
		return store.Errorf(503, err, "The blob can't be copied to the other nodes; try again")
	}
	return nil
}

// ShareAll puts all blobs into the depot, for a directory that was used before it had one.
func (d *Dir) ShareAll(ctx context.Context) error {
	names, err := filepath.Glob(filepath.Join(d.path, "??", "*"))
	if err != nil {
		return err
	}
	for _, path := range names {
		h, err := ParseHash(filepath.Base(path))
		if err != nil || d.Path(h) != path {
			continue
		}
		if err := errors.Join(ctx.Err(), d.Share(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// bring fetches a blob that isn't here. That of a blob which is nowhere is an [fs.ErrNotExist].
func (d *Dir) bring(h Hash) error {
	if d.depot == nil {
		return nil
	}
	if _, err := os.Lstat(d.Path(h)); err == nil {
		return nil
	}
	d.mu.Lock()
	f, begun := d.fetches[h]
	if !begun {
		f = &fetch{done: make(chan struct{})}
		d.fetches[h] = f
	}
	d.mu.Unlock()
	if begun {
		<-f.done
		return f.err
	}
	d.slots <- struct{}{}
	f.err = d.fetch(h)
	<-d.slots
	d.mu.Lock()
	delete(d.fetches, h)
	d.mu.Unlock()
	close(f.done)
	return f.err
}

// fetch gets a blob from the depot.
func (d *Dir) fetch(h Hash) error {
	if _, err := os.Lstat(d.Path(h)); err == nil {
		return nil // another fetch was faster
	}
	if err := durable.MakeDir(d.path); err != nil {
		return unkept(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), depotTime)
	defer cancel()
	blob := Blob{Hash: h, Path: d.Path(h)}
	sum := sha256.New()
	var got error // of the depot
	temporary, err := durable.Temporary(d.path, func(f io.Writer) error {
		w := &counted{w: io.MultiWriter(f, sum)}
		got = d.depot.Get(ctx, h, w)
		blob.Size = w.n
		return got
	})
	switch {
	case errors.Is(got, fs.ErrNotExist):
		return &fs.PathError{Op: "fetch", Path: blob.Path, Err: fs.ErrNotExist}
	case got != nil:
		return store.Errorf(503, got, "The blob %s is not on this node, and can't be fetched from the others at the moment; try again", h)
	case err != nil:
		return unkept(err)
	case Hash(sum.Sum(nil)) != h:
		return errors.Join(store.Errorf(500, ErrDamaged, "The copy of the blob %s is damaged", h), durable.Remove(temporary))
	}
	if err := d.adopt(temporary, blob); err != nil {
		return unkept(err)
	}
	return nil
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// here returns the path at which this node has a blob of the cluster, given the path at which another node has it. Any
// other path comes back as it is, and so does each one on one machine.
func (d *Dir) here(path string) string {
	if d == nil || d.depot == nil {
		return path
	}
	dir := filepath.Dir(filepath.Dir(path))
	if dir == d.path || filepath.Base(dir) != filepath.Base(d.path) || !isBlob(dir, path) {
		return path
	}
	h, err := ParseHash(filepath.Base(path))
	if err != nil {
		return path
	}
	if _, err := os.Lstat(path); err == nil && d.bring(h) != nil { // a file of this machine that isn't the cluster's
		return path
	}
	return d.Path(h)
}
