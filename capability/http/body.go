package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	nethttp "net/http"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
)

// taking takes the body of one answer. Bytes go through these, in this order:
//
//	the connection → progress → decoder → secret.Values → text, or secret.Values → blob
type taking struct {
	f        *fetcher
	request  json.RawMessage // of the caller
	response *nethttp.Response
	secrets  *secret.Values
	stream   *kernel.Stream
	decoder  *decoder // nil if the body is not compressed
}

// take appends the rest of the reply: the headers, and the body as text if it is a short
// one, or as a blob otherwise.
func (t *taking) take(dst []byte) (output, error) {
	limit := t.f.opts.MaxBody
	coding := codingOf(t.response)
	if t.response.ContentLength > limit && coding == "" {
		return nil, t.tooLarge()
	}
	var raw io.Reader = &progress{src: t.response.Body, total: t.response.ContentLength, stream: t.stream}
	if coding != "" {
		t.decoder = &decoder{src: raw, coding: coding}
		defer t.decoder.close()
		raw = t.decoder
	}
	src := &source{r: t.secrets.Reader(raw)}

	buffer := buffers.Get().(*[MaxInline + 1]byte)
	defer buffers.Put(buffer)
	n, err := readFull(src, buffer[:])
	begin := buffer[:n]
	switch {
	case int64(n) > limit:
		return nil, t.tooLarge()
	case src.failed != nil:
		return nil, &networkError{phase: reading, err: src.failed}
	case err == io.EOF && n <= MaxInline:
		if text, ok := textOf(begin, t.response.Header.Get("Content-Type")); ok {
			dst = slices.Grow(dst, n+n/8+512)
			dst = append(t.headers(dst), `,"body":`...)
			return append(jsonscan.AppendQuoted(dst, t.secrets.Hide(text)), '}'), nil
		}
	}
	blob, err := t.keep(begin, src)
	if err != nil {
		return nil, err
	}
	dst = append(t.headers(dst), `,"bodyRef":`...)
	return append(blob.Pointer().Append(dst), '}'), nil
}

// buffers are for the beginnings of bodies.
var buffers = sync.Pool{New: func() any { return new([MaxInline + 1]byte) }}

func (t *taking) headers(dst []byte) []byte {
	decoded := t.decoder != nil && t.decoder.begun
	return appendHeaders(append(dst, `,"headers":`...), t.response.Header, decoded, t.secrets)
}

// minCredential is how short a credential may be that is looked for in a blob. A shorter one
// may be there by chance, and a file must not be damaged by that.
const minCredential = 12

// credentials returns those of the request, nil if it has none. The caller knows them, so they
// may be in a reply; they must not be on disk.
func (t *taking) credentials() *secret.Values {
	return secret.TakenFromRequest(t.request, redact(t.request), minCredential)
}

// keep makes a blob of what has been read and what is still to come.
func (t *taking) keep(begin []byte, src *source) (blobs.Blob, error) {
	if t.f.opts.Blobs == nil {
		return blobs.Blob{}, message.Errorf(500, "The body is not a short text, and this kernel has no place for blobs")
	}
	body := t.credentials().Reader(io.MultiReader(bytes.NewReader(begin), src))
	blob, err := t.f.opts.Blobs.PutReader(body, t.f.opts.MaxBody)
	switch e, ok := errors.AsType[*message.Error](err); {
	case err == nil:
		return blob, nil
	case src.failed != nil:
		return blobs.Blob{}, &networkError{phase: reading, err: src.failed}
	case ok && e.Code == 413:
		return blobs.Blob{}, t.tooLarge()
	}
	return blobs.Blob{}, err
}

func (t *taking) tooLarge() error {
	return message.Errorf(413, "The server answered %d with a body of more than %d bytes, which is the most that is taken; ask for a part of it with the header Range", t.response.StatusCode, t.f.opts.MaxBody)
}

// readFull reads until the buffer is full or something is wrong. Unlike io.ReadFull, it
// tells an end from a body that was cut off.
func readFull(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = r.Read(buf[n:])
		n += more
	}
	return n, err
}

// A source remembers how it failed: who copies from it may fail too, and the two must be
// told apart.
type source struct {
	r      io.Reader
	failed error
}

func (s *source) Read(p []byte) (int, error) {
	if s.failed != nil {
		return 0, s.failed
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}

// codingOf returns how the body is compressed, or "" if it is not, or in a way that
// the caller has not asked for: such a body is kept as it came, with the header that says so.
func codingOf(r *nethttp.Response) string {
	if r.StatusCode == nethttp.StatusPartialContent {
		return "" // of which the beginning may be missing
	}
	switch coding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); coding {
	case "gzip", "x-gzip":
		return "gzip"
	case "zstd":
		return coding
	}
	return ""
}

// maxWindow is how far back zstd may refer: the limit of RFC 9659 for the web, and what
// bounds the memory.
const maxWindow = 8 << 20

// A decoder decompresses. It begins with the first byte, so that a body that is empty
// needs no form.
type decoder struct {
	src     io.Reader
	coding  string
	begun   bool
	plain   io.Reader
	release func()
}

func (d *decoder) Read(p []byte) (int, error) {
	if d.plain == nil {
		var first [1]byte
		if _, err := io.ReadFull(d.src, first[:]); err != nil {
			return 0, err
		}
		d.begun = true
		if err := d.begin(io.MultiReader(bytes.NewReader(first[:]), d.src)); err != nil {
			return 0, err
		}
	}
	return d.plain.Read(p)
}

func (d *decoder) begin(src io.Reader) error {
	if d.coding == "gzip" {
		r, err := gzip.NewReader(src)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		d.plain = r
		return err
	}
	r, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err == nil {
		d.plain, d.release = r, r.Close
	}
	return err
}

func (d *decoder) close() {
	if d.release != nil {
		d.release()
	}
}
