package http

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	nethttp "net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"kernos/internal/secret"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
)

// taking takes the body of one answer. Bytes go through these, in this order:
//
//	the connection → progress → decoder → secret.Values → text, or secret.Values → blob
type taking struct {
	*fetcher
	response *nethttp.Response
	secrets  *secret.Values
}

// take returns the reply: the body as text if it is a short one, or as a blob otherwise.
func (t *taking) take(ctx context.Context, stream *kernel.Stream) (output, error) {
	coding := codingOf(t.response)
	if t.response.ContentLength > t.MaxBody && coding == "" {
		return output{}, t.tooLarge()
	}
	var raw io.Reader = &progress{src: t.response.Body, total: t.response.ContentLength, stream: stream}
	decoded := false
	if coding != "" {
		plain, err := decode(raw, coding)
		if err != nil {
			return output{}, &networkError{phase: reading, err: err}
		}
		if plain != nil {
			defer func() { _ = plain.Close() }()
			raw, decoded = plain, true
		}
	}
	src := &source{r: t.secrets.Reader(raw)}
	begin := make([]byte, maxInline+1)
	n, err := io.ReadFull(src, begin)
	begin = begin[:n]
	switch {
	case int64(n) > t.MaxBody:
		return output{}, t.tooLarge()
	case src.failed != nil:
		return output{}, &networkError{phase: reading, err: src.failed}
	}
	out := output{Status: t.response.StatusCode, Headers: headersOf(t.response.Header, decoded, t.secrets)}
	if err != nil { // the body has ended: begin is all of it
		if text, ok := textOf(begin, t.response.Header.Get("Content-Type")); ok {
			text = t.secrets.Hide(text)
			out.Body = &text
			if fits(kernel.RequestOf(ctx), &out) {
				return out, nil
			}
			out.Body = nil
		}
	}
	blob, err := t.keep(ctx, begin, src, kernel.RequestOf(ctx).Data)
	if err != nil {
		return output{}, err
	}
	pointer := blob.Pointer()
	out.BodyRef, out.Size, out.MediaType = &pointer, blob.Size, cmp.Or(t.response.Header.Get("Content-Type"), "application/octet-stream")
	return out, nil
}

// fits reports whether a reply fits into a line.
func fits(request *message.Message, out *output) bool {
	data, err := json.Marshal(out)
	reply := request.Reply(data)
	reply.Metadata.ID, reply.Metadata.Timestamp = "01J00000000000000000000000", time.Now().UnixMilli()
	return err == nil && len(message.Append(nil, &reply)) <= message.MaxLine
}

// minCredential is how short a credential may be that is looked for in a blob. A shorter one
// may be there by chance, and a file must not be damaged by that.
const minCredential = 12

// keep makes a blob of what has been read and what is still to come. The caller knows the
// credentials of the request, so they may be in a reply; they must not be on disk.
func (t *taking) keep(ctx context.Context, begin []byte, src *source, request json.RawMessage) (blobs.Blob, error) {
	if t.Blobs == nil {
		return blobs.Blob{}, message.Errorf(500, "The body is not a short text, and this kernel has no place for blobs")
	}
	credentials := secret.TakenFromRequest(request, redact(request), minCredential)
	blob, err := t.Blobs.PutReader(ctx, credentials.Reader(io.MultiReader(bytes.NewReader(begin), src)), t.MaxBody)
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
	return message.Errorf(413, "The server answered %d with a body of more than %d bytes, which is the most that is taken; ask for a part of it with the header Range", t.response.StatusCode, t.MaxBody)
}

// A source remembers how it failed: copying from it may fail for another reason, and the two must be
// distinguished.
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
// the caller has not asked for: such a body is kept as it came, with its header Content-Encoding.
func codingOf(r *nethttp.Response) string {
	if r.StatusCode == nethttp.StatusPartialContent {
		return "" // the beginning of a part may be missing
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

// decode returns the decompressed body, nil if nothing comes: an empty body needs no form.
func decode(src io.Reader, coding string) (io.ReadCloser, error) {
	buffered := bufio.NewReader(src)
	switch _, err := buffered.Peek(1); {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, err
	}
	if coding == "gzip" {
		plain, err := gzip.NewReader(buffered)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return plain, err
	}
	plain, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return plain.IOReadCloser(), nil
}

// textOf returns a body as text, if it is text in the character set that its type
// declares. What the type calls itself does not matter: a string that doesn't have the meaning of
// the bytes is not returned.
func textOf(body []byte, contentType string) (string, bool) {
	if !strings.Contains(contentType, "=") { // no parameter, so no character set
		return string(body), readable(body)
	}
	_, parameters, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(parameters["charset"])
	if err != nil || charset == "" || charset == "utf-8" || charset == "utf8" {
		return string(body), readable(body)
	}
	encoding, err := htmlindex.Get(charset)
	if err != nil {
		return "", false
	}
	// A byte order mark takes precedence over the declaration.
	text, _, err := transform.Bytes(unicode.BOMOverride(encoding.NewDecoder()), body)
	if err != nil || strings.ContainsRune(string(text), utf8.RuneError) {
		return "", false
	}
	return string(text), readable(text)
}

// readable reports whether bytes are UTF-8 without control characters but white space.
func readable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f' || c == 0x7F {
			return false
		}
	}
	return utf8.Valid(text)
}

// progressStep is how many bytes of a body there are between two reports of progress.
const progressStep = 1 << 20

// A progress reports to the caller how far a large body has come, in at most some twenty
// events: in steps of a twentieth if the length of the body is known, and at each
// doubling if it has not.
type progress struct {
	src    io.Reader
	total  int64 // bytes in all, or -1
	stream *kernel.Stream

	n, next int64
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.src.Read(b)
	p.n += int64(n)
	if p.n < max(p.next, progressStep) {
		return n, err
	}
	const mega = 1e6
	if p.total > 0 {
		p.next = p.n + max(progressStep, p.total/20)
		p.stream.Progress(fmt.Sprintf("%.1f of %.1f MB", float64(p.n)/mega, float64(p.total)/mega), float64(p.n)/float64(p.total))
	} else {
		p.next = 2 * p.n
		p.stream.Progress(fmt.Sprintf("%.1f MB", float64(p.n)/mega), 0)
	}
	return n, err
}
