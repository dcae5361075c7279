package door

import (
	"io"
	"net/http"
	"strings"
)

// endFrames makes a WebSocket end with a frame that sends the client to the next owner, if the owner goes without one.
func endFrames(answer *http.Response) error {
	if body, ok := answer.Body.(io.ReadWriteCloser); ok && answer.StatusCode == http.StatusSwitchingProtocols && strings.EqualFold(answer.Header.Get("Upgrade"), "websocket") {
		answer.Body = &frames{ReadWriteCloser: body}
	}
	return nil
}

// serviceRestart is a frame of a WebSocket that closes it with the status 1012.
const serviceRestart = "\x88\x02\x03\xf4"

// frames is the side of the owner of a WebSocket. It knows where frames end.
type frames struct {
	io.ReadWriteCloser
	head   []byte // the part of a frame's header that has come
	left   uint64 // bytes of the frame that are to come
	closed bool   // a frame that closes has come
	last   string // what is sent after the end; "" if nothing is left
	ended  bool
}

// Read implements [io.Reader].
func (f *frames) Read(p []byte) (int, error) {
	if !f.ended {
		n, err := f.ReadWriteCloser.Read(p)
		f.follow(p[:n])
		if err == nil || n > 0 {
			return n, nil
		}
		f.ended = true
		if !f.closed && len(f.head) == 0 && f.left == 0 {
			f.last = serviceRestart
		}
	}
	if f.last == "" {
		return 0, io.EOF
	}
	n := copy(p, f.last)
	f.last = f.last[n:]
	return n, nil
}

// follow follows the frames that have come.
func (f *frames) follow(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			continue
		}
		f.head = append(f.head, p[0])
		p = p[1:]
		f.left = f.header()
	}
}

// header reads a header once all of it has come, and returns the length of what follows.
func (f *frames) header() (length uint64) {
	if len(f.head) < 2 {
		return 0
	}
	extended := 0
	switch length = uint64(f.head[1] & 0x7f); length {
	case 126:
		extended = 2
	case 127:
		extended = 8
	}
	if f.head[1]&0x80 != 0 {
		length += 4 // a mask, which a server doesn't use
	}
	if len(f.head) < 2+extended {
		return 0
	}
	if extended > 0 {
		length -= uint64(f.head[1] & 0x7f)
		var n uint64
		for _, b := range f.head[2:] {
			n = n<<8 | uint64(b)
		}
		length += n
	}
	f.closed = f.closed || f.head[0]&0x0f == 8
	f.head = f.head[:0]
	return length
}
