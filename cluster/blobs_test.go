package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"

	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/replicated/jetstream"
)

var _ Objects = (*jetstream.Objects)(nil)

// objectMap is an object store in memory.
type objectMap map[string][]byte

func (m objectMap) Put(_ context.Context, name string, r io.Reader) (n int64, err error) {
	m[name], err = io.ReadAll(r)
	return int64(len(m[name])), err
}

func (m objectMap) Get(_ context.Context, name string, w io.Writer) error {
	data, ok := m[name]
	if !ok {
		return store.Errorf(404, nil, "The object store doesn't have this object")
	}
	_, err := w.Write(data)
	return err
}

// The blobs of an origin are objects under its name; one that isn't there doesn't exist.
func TestBlobsAreObjects(t *testing.T) {
	objects, h := objectMap{}, blobs.Sum([]byte("data"))
	one, other := Blobs(objects, store.Origin("a")), Blobs(objects, store.Origin("b"))
	if err := one.Put(t.Context(), h, bytes.NewReader([]byte("data"))); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := one.Get(t.Context(), h, &got); err != nil || got.String() != "data" {
		t.Errorf("the blob is %q, %v", &got, err)
	}
	if err := other.Get(t.Context(), h, &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another origin has it: %v", err)
	}
	if err := Blobs(objects, store.Origin("a")).Get(t.Context(), blobs.Sum(nil), &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a blob that isn't there fails with %v", err)
	}
}
