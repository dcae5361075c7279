package secret

import (
	"bytes"
	"io"
	"slices"
)

// Reader returns a reader of the same bytes without the secrets, also those that come in
// several pieces.
func (v *Values) Reader(r io.Reader) io.Reader {
	if v == nil {
		return r
	}
	h := &hidingReader{src: r}
	for _, form := range v.forms {
		h.forms = append(h.forms, []byte(form))
	}
	return h
}

const hidingChunk = 16 << 10

// A hidingReader holds back as many bytes as the beginning of a secret may have, until it
// knows how they continue.
type hidingReader struct {
	forms [][]byte // the longest first
	src   io.Reader
	buf   []byte // bytes that were read and may be part of a secret
	out   []byte // bytes that are decided
	given int    // bytes of out that the caller has got
	next  []int  // index in buf of the next match of each form
	err   error  // the error of src
}

func (h *hidingReader) Read(p []byte) (int, error) {
	for h.given == len(h.out) {
		if h.err != nil && len(h.buf) == 0 {
			return 0, h.err
		}
		h.fill()
	}
	n := copy(p, h.out[h.given:])
	h.given += n
	return n, nil
}

// fill reads once, and decides about all bytes at which no secret can begin that is not
// seen whole.
func (h *hidingReader) fill() {
	if h.err == nil {
		start := len(h.buf)
		h.buf = slices.Grow(h.buf, hidingChunk)
		var n int
		n, h.err = h.src.Read(h.buf[start : start+hidingChunk])
		h.buf = h.buf[:start+n]
	}
	decided := len(h.buf)
	if h.err == nil {
		decided = max(0, len(h.buf)-len(h.forms[0])+1)
	}
	h.out, h.given = h.out[:0], 0
	h.next = slices.Grow(h.next[:0], len(h.forms))[:len(h.forms)]
	for i := range h.next {
		h.next[i] = h.find(i, 0)
	}
	at := 0
	for at < decided {
		begin, end := h.first(at)
		if begin >= decided {
			h.out = append(h.out, h.buf[at:decided]...)
			at = decided
			break
		}
		h.out = append(append(h.out, h.buf[at:begin]...), Redacted...)
		at = end
	}
	h.buf = h.buf[:copy(h.buf, h.buf[at:])]
}

// first returns where the first secret at or after an offset begins and ends, the longest
// of those that begin there.
func (h *hidingReader) first(at int) (begin, end int) {
	begin = len(h.buf)
	for i, form := range h.forms {
		if h.next[i] < at {
			h.next[i] = h.find(i, at)
		}
		if h.next[i] < begin {
			begin, end = h.next[i], h.next[i]+len(form)
		}
	}
	return begin, end
}

// find returns where a form next begins, or the end if it does not.
func (h *hidingReader) find(form, at int) int {
	if i := bytes.Index(h.buf[at:], h.forms[form]); i >= 0 {
		return at + i
	}
	return len(h.buf)
}
