package blobs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kernos/internal/fence"
	"kernos/internal/rootdir"
	"kernos/message"
	"kernos/store"
)

// maxResolved is how large the data behind a pointer may be, if a resolver doesn't
// set it.
const maxResolved = 64 << 20

// maxRedirects is how often an https server may send the reader elsewhere.
const maxRedirects = 5

// A Resolver fetches the data that a pointer in a request means. The zero value takes
// data pointers, and files that this process may read.
type Resolver struct {
	// Dir is the directory of blobs to which Confined confines.
	Dir *Dir

	// Confined refuses all files but the blobs of Dir: for callers that may not reach
	// this machine's disk. Those that a context marks as remote ([WithRemote]) are
	// confined always.
	Confined bool

	// Reaches reports whether the caller may have a blob, if it is confined. Nil means all of them.
	Reaches func(context.Context, Hash) (bool, error)

	// Private are directories of which nothing may be read but the blobs of Dir, by whatever
	// path or link: the home of the kernel, where keys are, and the state of other origins, and
	// its runtime directory.
	Private []string

	// Outside decides whether the caller may reach a file that is not a blob of Dir, by its path. Nil
	// means that it may.
	Outside func(ctx context.Context, path string) error

	// Client fetches https pointers. Nil refuses them. Its CheckRedirect is not used.
	Client *http.Client

	// Limit is how many bytes are taken. 0 means 64 MB.
	Limit int64
}

// Resolve returns the data. Its errors are *message.Error, or those of ctx:
//
//	403  a file that may not be read, or is the kernel's; https without a client
//	404  the file doesn't exist
//	413  more than the limit
//	422  no regular file; a fragment
//	502  an https server that can't be reached, or does not answer with 200
//	504  an https server that is too slow
//
// A pointer with a fragment means a part of the data. Which part depends on the data's
// format, and none is known here; the whole would be something else than what was
// asked for, so it is refused.
func (r *Resolver) Resolve(ctx context.Context, p message.BlobPointer) ([]byte, error) {
	if p.Fragment != "" {
		return nil, message.Errorf(422, "The fragment of a %s pointer is not supported here: point to the whole data", p.Scheme)
	}
	limit := cmp.Or(r.Limit, maxResolved)
	remote := RemoteOf(ctx)
	if h, ok := remote.own(p); ok && p.Scheme == "https" {
		p = remote.Dir.Pointer(h)
	}
	switch p.Scheme {
	case "data":
		_, data, err := p.Inline()
		if err == nil && int64(len(data)) > limit {
			err = tooLarge(limit)
		}
		return data, err
	case "file":
		return r.file(ctx, p.Path, limit)
	case "https":
		return r.https(ctx, p, limit)
	}
	return nil, message.Errorf(422, "Invalid BlobPointer: scheme must be file, https or data, got %q", message.Clip(p.Scheme, 40))
}

func tooLarge(limit int64) *message.Error {
	return message.Errorf(413, "The data is larger than %d bytes, which is the most that is taken", limit)
}

// notRegular reports what to point to instead of a directory, a device or a pipe.
func notRegular(path string) error {
	return message.Errorf(422, "%s is not a regular file: point to a file", message.Clip(path, 400))
}

// tries is how often a file is opened that is exchanged all the time.
const tries = 10

func (r *Resolver) file(ctx context.Context, path string, limit int64) (data []byte, err error) {
	for range tries {
		if data, err = r.readFile(ctx, path, limit); !errors.Is(err, fence.ErrMoved) {
			return data, err
		}
	}
	return nil, message.Errorf(503, "%s keeps being replaced while it is opened, so it can't be checked that it lies outside of KERNOS_HOME; try again when it no longer changes", message.Clip(path, 400))
}

// readFile reads a file without ever waiting for a process at the other end of it.
func (r *Resolver) readFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if !filepath.IsAbs(path) || strings.IndexByte(path, 0) >= 0 {
		return nil, message.Errorf(422, "A file pointer needs an absolute path, got %q", message.Clip(path, 400))
	}
	path = r.Dir.here(filepath.Clean(path))
	stat, open := os.Stat, os.OpenFile
	name, confined := path, r.Confined || RemoteOf(ctx) != nil
	var private fence.Fence
	if !confined && len(r.Private) > 0 {
		switch at := withoutLinks(path); {
		case r.ownBlob(at):
			confined, path = true, r.Dir.path+at[len(filepath.Dir(filepath.Dir(at))):]
		case slices.ContainsFunc(r.Private, func(dir string) bool { return within(dir, at) }):
			return nil, belongs(path)
		default: // checked again on the opened file, since the path may lead elsewhere by then
			private = r.Private
		}
	}
	if !confined && r.Outside != nil {
		if err := r.Outside(ctx, path); err != nil {
			return nil, err
		}
	}
	if confined {
		root, inner, err := r.confine(ctx, path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = root.Close() }()
		stat, open, name = root.Stat, root.OpenFile, inner
	}
	// To open a device may do something. So the look before; the one after is for what
	// has changed between.
	info, err := stat(name)
	if err != nil {
		return nil, fileError(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return nil, fileError(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	switch err := private.Check(f, path); {
	case errors.Is(err, fence.ErrPrivate):
		return nil, belongs(path)
	case errors.Is(err, fence.ErrMoved):
		return nil, err
	case err != nil:
		return nil, fileError(path, err)
	}
	// Some files of the system are regular by name only, and a read of them waits.
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	data, err := readAll(f, info.Size(), limit)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fileError(path, err)
	}
	return data, nil
}

// confine opens the directory of blobs and returns the path of a blob in it. A symbolic
// link in it leads nowhere else.
func (r *Resolver) confine(ctx context.Context, path string) (*os.Root, string, error) {
	refused := message.Errorf(403, "Operation not allowed: a file pointer over this connection may mean a blob of the kernel only (got %s)", message.Clip(path, 400))
	if r.Dir == nil || !isBlob(r.Dir.path, path) {
		return nil, "", refused
	}
	name := filepath.Base(path)
	if h, err := ParseHash(name); err == nil && r.Reaches != nil {
		switch reached, err := r.Reaches(ctx, h); {
		case err != nil:
			return nil, "", err
		case !reached: // reported as absent: even its existence may be a secret
			return nil, "", fileError(path, fs.ErrNotExist)
		}
	}
	if h, err := ParseHash(name); err == nil {
		if err := r.Dir.bring(h); err != nil {
			return nil, "", fileError(path, err)
		}
	}
	root, err := os.OpenRoot(r.Dir.path)
	if err != nil {
		return nil, "", fileError(path, err)
	}
	return root, filepath.Join(name[:2], name), nil
}

func belongs(path string) error {
	return message.Errorf(403, "Operation not allowed: %s belongs to the kernel; a file pointer may mean a blob of this origin, or a file elsewhere", message.Clip(path, 400))
}

// ownBlob reports whether a path without links is that of a blob.
func (r *Resolver) ownBlob(path string) bool {
	if r.Dir == nil {
		return false
	}
	dir := filepath.Dir(filepath.Dir(path))
	own, err := os.Stat(r.Dir.path)
	at, atErr := os.Stat(dir)
	return err == nil && atErr == nil && os.SameFile(own, at) && isBlob(dir, path)
}

// isBlob reports whether a path is that of a blob in a directory.
func isBlob(dir, path string) bool {
	h, err := ParseHash(filepath.Base(path))
	return err == nil && (&Dir{path: dir}).Path(h) == path
}

// fileError puts a failure of the file system into words for the caller.
func fileError(path string, err error) error {
	path = message.Clip(path, 400)
	switch {
	case errors.As(err, new(*message.Error)), errors.As(err, new(*store.Error)):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return message.Errorf(404, "File not found: %s", path)
	case errors.Is(err, fs.ErrPermission):
		return message.Errorf(403, "Operation not allowed: the kernel may not read %s", path)
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		return message.Errorf(422, "No file can be reached by the path %s", path)
	}
	if rootdir.Escapes(err) {
		return message.Errorf(403, "Operation not allowed: %s leads out of the directory of blobs", path)
	}
	if r, ok := errors.AsType[*fs.PathError](err); ok {
		err = r.Err
	}
	return message.Errorf(500, "%s can't be read: %v", path, err)
}

// readAll reads to the end, or fails if that is farther than the limit. It trusts no
// announcement of the size, but makes room for an honest one.
func readAll(r io.Reader, announced, limit int64) ([]byte, error) {
	if announced > limit {
		return nil, tooLarge(limit)
	}
	var b bytes.Buffer
	if announced > 0 {
		b.Grow(int(announced) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = tooLarge(limit)
	}
	return b.Bytes(), err
}

// https fetches over TLS, and from nowhere else.
func (r *Resolver) https(ctx context.Context, p message.BlobPointer, limit int64) ([]byte, error) {
	where := "https://" + p.Authority + message.Clip(p.Path, 400) // a query may hold a token
	if r.Client == nil {
		return nil, message.Errorf(403, "Operation not allowed: https pointers can't be fetched here; send a file or data pointer")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.String(), nil)
	if err != nil || request.URL.Scheme != "https" || request.URL.Host == "" || request.URL.User != nil {
		return nil, message.Errorf(422, "Invalid BlobPointer: %s isn't an address that can be fetched", where)
	}
	client := *r.Client
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		switch {
		case len(via) > maxRedirects:
			return fmt.Errorf("the server redirects more than %d times", maxRedirects)
		case next.URL.Scheme != "https":
			return errors.New("the server redirects to an address that is not https")
		}
		return nil
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, httpsError(ctx, where, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		cause := &message.Error{Code: response.StatusCode, Message: strings.TrimSpace("The server answered " + response.Status)}
		if cause.Code < 400 || cause.Code > 599 {
			cause.Code = 502
		}
		return nil, &message.Error{Code: 502, Message: "Could not fetch " + where, Cause: cause}
	}
	data, err := readAll(response.Body, response.ContentLength, limit)
	if err != nil {
		return nil, httpsError(ctx, where, err)
	}
	return data, nil
}

// httpsError reports what has failed: the caller has gone, the time is over, or the network.
func httpsError(ctx context.Context, where string, err error) error {
	if e, ok := errors.AsType[*message.Error](err); ok {
		return e
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // leaves out the address, which may hold a token
	}
	e := &message.Error{Code: 502, Message: "Could not fetch " + where, Cause: &message.Error{Code: 502, Message: err.Error()}}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || ctx.Err() != nil {
		e.Code, e.Cause = 504, &message.Error{Code: 504, Message: "The server did not answer in time"}
	}
	return e
}
