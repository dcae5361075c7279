package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"unicode/utf8"

	"kernos/client"
	"kernos/internal/exit"
	"kernos/message"
	"kernos/store/blobs"
)

// ErrElsewhere is the error for a pointer to what isn't a blob of the server.
var ErrElsewhere = errors.New("the pointer isn't to a blob of the server")

// blobs returns where the daemon of this user keeps large data.
func (d *Daemon) blobs() (*blobs.Dir, error) { return blobs.New(filepath.Join(d.State(), "blobs")) }

// Blob opens the data that an answer of the server points to. The name of a blob decides what is read,
// and not its path: a server elsewhere can't name a file of this machine. Reading fails at the end if
// the data isn't what the name stands for. The error is ErrElsewhere for other pointers.
func (s *Server) Blob(ctx context.Context, p message.BlobPointer) (io.ReadCloser, error) {
	if p.Scheme == "data" {
		_, data, err := p.Inline()
		return io.NopCloser(bytes.NewReader(data)), err
	}
	name, err := blobs.ParseHash(path.Base(p.Path))
	if err != nil || p.Fragment != "" || p.Query != "" {
		return nil, ErrElsewhere
	}
	var data io.ReadCloser
	if s.Daemon != nil {
		dir, err := s.Daemon.blobs()
		if err != nil {
			return nil, err
		}
		switch f, err := dir.Open(name); {
		case err == nil:
			data = f
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the answer is a blob that can't be read: %w", err)
		}
	}
	if data == nil { // a server elsewhere, or another node of a cluster, has it
		response, err := s.Target.Open(ctx, blobs.PathPrefix+name.String())
		if err != nil {
			return nil, fmt.Errorf("the answer is a blob that can't be fetched: %w", err)
		}
		if response.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
			_ = response.Body.Close()
			return nil, &client.Refused{URL: s.Target.URL, Status: response.StatusCode, Text: string(text)}
		}
		data = response.Body
	}
	return &checked{ReadCloser: data, sum: sha256.New(), want: name}, nil
}

// A checked reader compares what it has read with the name of the blob.
type checked struct {
	io.ReadCloser
	sum  hash.Hash
	want blobs.Hash
}

// Read implements [io.Reader].
func (c *checked) Read(to []byte) (int, error) {
	n, err := c.ReadCloser.Read(to)
	_, _ = c.sum.Write(to[:n])
	if err == io.EOF && !bytes.Equal(c.sum.Sum(nil), c.want[:]) {
		err = blobs.ErrDamaged
	}
	return n, err
}

// Fetch reads all of the data that an answer points to; see [Server.Blob].
func (s *Server) Fetch(ctx context.Context, p message.BlobPointer) ([]byte, error) {
	blob, err := s.Blob(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }()
	return io.ReadAll(blob)
}

// Keep puts data where the server finds it, and returns the pointer that a call can have in its place.
// A server elsewhere reads nothing of this machine: it gets data that fits into the pointer. Errors of
// the reader are returned as they are; data that is too large is a *[message.Error] with code 413.
func (s *Server) Keep(data io.Reader) (message.BlobPointer, error) {
	if s.Daemon == nil {
		return inPointer(data)
	}
	dir, err := s.Daemon.blobs()
	if err != nil {
		return message.BlobPointer{}, err
	}
	source := &failing{Reader: data}
	blob, err := dir.PutReader(source, maxValue)
	if source.err != nil {
		return message.BlobPointer{}, source.err
	}
	if e, ok := errors.AsType[*message.Error](err); err != nil && !(ok && e.Code == 413) {
		err = exit.Wrap(fmt.Errorf("the value can't be kept for the daemon: %w", err))
	}
	return blob.Pointer(), err
}

// maxValue is how large a value or a file may be.
const maxValue = 64 << 20

// failing is a reader that remembers its error.
type failing struct {
	io.Reader
	err error
}

// Read implements [io.Reader].
func (f *failing) Read(b []byte) (n int, err error) {
	if n, err = f.Reader.Read(b); err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// inPointer returns a pointer that has the data in it.
func inPointer(r io.Reader) (message.BlobPointer, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxCall+1))
	switch {
	case err != nil:
		return message.BlobPointer{}, err
	case len(data) <= message.MaxInlineBlob:
		return message.BlobPointer{Scheme: "data", Path: "application/octet-stream;base64," + base64.StdEncoding.EncodeToString(data)}, nil
	case len(data) > MaxCall:
		return message.BlobPointer{}, fmt.Errorf("the value has more than %d bytes, which is what a call to a server elsewhere may have", MaxCall)
	case utf8.Valid(data):
		return message.BlobPointer{}, fmt.Errorf("the value has %d bytes, and a call to a server elsewhere may have %d", len(data), MaxCall)
	}
	return message.BlobPointer{}, fmt.Errorf("the value isn't text and has %d bytes, and a call to a server elsewhere may have %d of these", len(data), message.MaxInlineBlob)
}

// MaxCall is how many bytes the parameters of a call may have: servers close a connection that brings
// a longer message. Text up to MaxInline stands in the call, also where a reference could.
const (
	MaxCall   = 1<<20 - 4<<10
	maxInline = 256 << 10
)

// MaxInline returns how many bytes of text of one value stand in a call to the server, where a reference
// could take its place.
func (s *Server) MaxInline() int {
	if s.Daemon == nil {
		return MaxCall
	}
	return maxInline
}
