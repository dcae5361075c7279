package http

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
)

// blob answers with large data, whole or in part. Its name is the hash of its content, so it
// never changes. Its content type is unknown: a browser gets it as bytes, and must not take
// it for a page of ours.
func (s *Server) blob(w http.ResponseWriter, r *http.Request) {
	if s.opts.Blobs == nil {
		missing(w, r)
		return
	}
	id := r.PathValue("id")
	hash, err := blobs.ParseHash(id)
	if err != nil {
		refuse(w, refusal{400, "bad_blob_id", fmt.Sprintf("%q is not the name of a blob: %v", message.Clip(id, 100), err)})
		return
	}
	f, err := s.openBlob(r, hash)
	if lost := s.k.AwaitFence(r.Context()); lost != nil {
		if err == nil {
			_ = f.Close()
		}
		refuseCall(w, lost)
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		refuse(w, refusal{404, "no_such_blob", "No blob of this name exists for this caller; it may have been removed because nothing refers to it"})
		return
	}
	if e, ok := errors.AsType[*store.Error](err); ok {
		s.opts.Log.Warn("a blob can't be read at the moment", "blob", id, "error", err)
		refuseCall(w, e)
		return
	}
	if err != nil {
		s.opts.Log.Error("a blob can't be read", "blob", id, "error", err)
		refuse(w, refusal{500, "blob_unreadable", "The blob can't be read; the daemon's log says why"})
		return
	}
	defer func() { _ = f.Close() }()
	h := w.Header()
	h.Set("ETag", `"`+id+`"`)
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	http.ServeContent(&parts{ResponseWriter: w}, r, "", time.Time{}, f)
}

// openBlob opens a blob. One that the caller may not have is an [fs.ErrNotExist] too: that it is
// there may be a secret.
func (s *Server) openBlob(r *http.Request, hash blobs.Hash) (*os.File, error) {
	if s.opts.ReachesBlob != nil {
		reached, err := s.opts.ReachesBlob(kernel.SenderIn(r.Context()).Principal(), hash)
		if err != nil || !reached {
			return nil, cmp.Or(err, fs.ErrNotExist)
		}
	}
	return s.opts.Blobs.Open(hash)
}

// parts replaces the answer of net/http to a range that the blob doesn't have.
type parts struct {
	http.ResponseWriter
	refused bool
}

// WriteHeader implements [http.ResponseWriter].
func (p *parts) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.refused = true
	p.Header().Set("Cache-Control", "no-store")
	refuse(p.ResponseWriter, refusal{status, "bad_range", "The blob doesn't have these bytes; Content-Range reports its size"})
}

// Write implements [http.ResponseWriter].
func (p *parts) Write(b []byte) (int, error) {
	if p.refused {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}
