package jetstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kernos/store"
)

// Objects is the object store beside a stream: bytes under names, in pieces, with their digest. The nats command shows
// it as the bucket of the stream's name. Unlike the client's own, it writes a piece only after the one before it, so
// that repeated attempts add no piece twice, and asks the leader what there is.
type Objects struct {
	place
	bucket string
}

// piece is the size of pieces, in bytes, if messages may be as large.
const piece = 512 << 10

// Errors of objects.
var (
	// ErrNoObject means that no object has the name.
	ErrNoObject error = &store.Error{Code: 404, Text: "The object store doesn't have this object"}

	// ErrObjectExists means that another object has the name.
	ErrObjectExists error = &store.Error{Code: 409, Text: "The object store has another object of this name"}
)

// meta returns the subject of an object's description.
func (o *Objects) meta(name string) string {
	return "$O." + o.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// pieces returns the subject of an object's pieces.
func (o *Objects) pieces(id string) string { return "$O." + o.bucket + ".C." + id }

// find returns the description of an object, and its sequence. The description is nil if there is none.
func (o *Objects) find(ctx context.Context, name string) (*jetstream.ObjectInfo, uint64, error) {
	for pauses := pauses(); ; {
		attempt, cancel := context.WithTimeout(ctx, attempt)
		m, err := o.Last(attempt, o.meta(name))
		cancel()
		if err == nil {
			info, err := describe(m)
			return info, m.Sequence, err
		}
		if o.nc.IsClosed() || !pauses.Wait(ctx.Done()) {
			return nil, 0, errorf(errors.Join(ctx.Err(), err), "The object store of the cluster doesn't answer")
		}
	}
}

// describe decodes a description. It is nil if there is none, or if the object was deleted.
func describe(m Message) (*jetstream.ObjectInfo, error) {
	if m.Sequence == 0 {
		return nil, nil
	}
	var info jetstream.ObjectInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return nil, fmt.Errorf("the description of an object can't be read: %w", err)
	}
	if info.Deleted {
		return nil, nil
	}
	return &info, nil
}

// Put stores what r has under a name that was free, or had the same bytes, and returns once a majority of the servers
// have all of it. It returns the number of bytes.
func (o *Objects) Put(ctx context.Context, name string, r io.Reader) (int64, error) {
	info, last, err := o.find(ctx, name)
	if err != nil {
		return 0, err
	}
	if info != nil {
		return same(info, r)
	}
	id, sum := rand.Text(), sha256.New()
	size, count, err := o.write(ctx, id, io.TeeReader(r, sum))
	if err != nil {
		o.drop(id)
		return 0, err
	}
	description, err := json.Marshal(jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: piece}},
		Bucket:     o.bucket, NUID: id, Size: uint64(size), Chunks: uint32(count), Digest: digest(sum), ModTime: time.Now().UTC(),
	})
	if err != nil {
		return 0, err
	}
	m := &nats.Msg{Subject: o.meta(name), Header: nats.Header{headerRollup: {"sub"}}, Data: description}
	_, err = o.Add(ctx, m, last)
	if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
		o.drop(id)
		if info, _, err = o.find(ctx, name); err == nil && (info == nil || info.Digest != digest(sum)) {
			err = ErrObjectExists
		}
	}
	return size, err
}

// same reads all of r, and reports an error if it isn't what an object has.
func same(info *jetstream.ObjectInfo, r io.Reader) (int64, error) {
	sum := sha256.New()
	size, err := io.Copy(sum, r)
	if err == nil && digest(sum) != info.Digest {
		err = ErrObjectExists
	}
	return size, err
}

// digest returns a digest as descriptions have it.
func digest(sum hash.Hash) string {
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum.Sum(nil))
}

// write writes the pieces of an object.
func (o *Objects) write(ctx context.Context, id string, r io.Reader) (size int64, count int, err error) {
	b := make([]byte, min(piece, int(o.nc.MaxPayload())-headers))
	for last := uint64(0); ; count++ {
		n, end := io.ReadFull(r, b)
		if n > 0 {
			if last, err = o.Add(ctx, &nats.Msg{Subject: o.pieces(id), Data: b[:n]}, last); err != nil {
				return 0, 0, errorf(err, "The object store of the cluster didn't take a piece of %d bytes", n)
			}
			size += int64(n)
		}
		switch {
		case errors.Is(end, io.ErrUnexpectedEOF):
			return size, count + 1, nil
		case errors.Is(end, io.EOF):
			return size, count, nil
		case end != nil:
			return 0, 0, end
		}
	}
}

// drop removes pieces that no description names. What fails is left behind.
func (o *Objects) drop(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	if err := o.stream.Purge(ctx, jetstream.WithPurgeSubject(o.pieces(id))); err != nil {
		o.log.Warn("Pieces of an object are left in the object store", "bucket", o.bucket, "id", id, "error", err)
	}
}

// errRead ends the reading of pieces.
var errRead = errors.New("all pieces were read")

// Get writes the object to w. An error means that what was written is incomplete, or isn't what was stored.
func (o *Objects) Get(ctx context.Context, name string, w io.Writer) error {
	info, _, err := o.find(ctx, name)
	if err != nil {
		return err
	}
	if info == nil {
		return ErrNoObject
	}
	size, sum := uint64(0), sha256.New()
	if info.Size > 0 {
		last, err := o.Last(ctx, o.pieces(info.NUID))
		if err != nil {
			return errorf(err, "The object store of the cluster doesn't answer")
		}
		if last.Sequence == 0 {
			return errorf(nil, "The object store has lost the pieces of %s", name)
		}
		w := io.MultiWriter(w, sum)
		err = o.follow(ctx, o.pieces(info.NUID), 0, func(m Message) error {
			if _, err := w.Write(m.Data); err != nil {
				return err
			}
			if size += uint64(len(m.Data)); m.Sequence >= last.Sequence {
				return errRead
			}
			return nil
		})
		if !errors.Is(err, errRead) {
			return err
		}
	}
	if size != info.Size || digest(sum) != info.Digest {
		return errorf(nil, "The object %s in the object store is damaged: it has %d bytes, "+
			"and another digest than what was stored, with %d bytes", name, size, info.Size)
	}
	return nil
}

// read returns what an object has.
func (o *Objects) read(ctx context.Context, name string) ([]byte, error) {
	size, found, err := o.Has(ctx, name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNoObject
	}
	b := bytes.NewBuffer(make([]byte, 0, size))
	err = o.Get(ctx, name, b)
	return b.Bytes(), err
}

// Has reports whether there is an object of this name, and how large it is.
func (o *Objects) Has(ctx context.Context, name string) (size int64, found bool, err error) {
	info, _, err := o.find(ctx, name)
	if err != nil || info == nil {
		return 0, false, err
	}
	return int64(info.Size), true, nil
}

// Names calls each with the names that begin with a prefix, in no order, until each returns false.
func (o *Objects) Names(ctx context.Context, prefix string, each func(name string, size int64) bool) error {
	all := "$O." + o.bucket + ".M.>"
	about, err := o.stream.Info(ctx, jetstream.WithSubjectFilter(all))
	if err != nil {
		return errorf(err, "The object store of the cluster doesn't answer")
	}
	for subject := range about.State.Subjects {
		m, err := o.Last(ctx, subject)
		if err != nil {
			return errorf(err, "The object store of the cluster doesn't answer")
		}
		if info, err := describe(m); err != nil {
			return err
		} else if info != nil && strings.HasPrefix(info.Name, prefix) && !each(info.Name, int64(info.Size)) {
			return nil
		}
	}
	return nil
}

// Delete removes an object. One that doesn't exist isn't an error.
func (o *Objects) Delete(ctx context.Context, name string) error {
	info, last, err := o.find(ctx, name)
	if err != nil || info == nil {
		return err
	}
	id := info.NUID
	info.Deleted, info.Size, info.Chunks, info.Digest = true, 0, 0, ""
	description, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: o.meta(name), Header: nats.Header{headerRollup: {"sub"}}, Data: description}
	if _, err := o.Add(ctx, m, last); err != nil {
		return err
	}
	o.drop(id)
	return nil
}
