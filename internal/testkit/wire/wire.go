// Package wire has connections within the process, for tests and benchmarks.
package wire

import (
	"io"
	"sync"
)

// direction is one direction of a connection: what is written waits in a buffer until it is
// read.
type direction struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	taken   int // of buf
	closed  bool
}

// size is how much waits before its writer does.
const size = 256 << 10

func newDirection() *direction {
	d := new(direction)
	d.changed.L = &d.mu
	return d
}

// write appends p to what waits to be read. With wait, it waits while too much is unread;
// otherwise it writes nothing then.
func (d *direction) write(p []byte, wait bool) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.buf)-d.taken > size && !d.closed {
		if !wait {
			return 0, nil
		}
		d.changed.Wait()
	}
	if d.closed {
		return 0, io.ErrClosedPipe
	}
	if d.taken > 0 && len(d.buf)+len(p) > cap(d.buf) {
		d.buf, d.taken = d.buf[:copy(d.buf, d.buf[d.taken:])], 0
	}
	d.buf = append(d.buf, p...)
	d.changed.Broadcast()
	return len(p), nil
}

func (d *direction) read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.taken == len(d.buf) {
		if d.closed {
			return 0, io.EOF
		}
		d.changed.Wait()
	}
	full := len(d.buf)-d.taken > size
	n := copy(p, d.buf[d.taken:])
	if d.taken += n; d.taken == len(d.buf) {
		d.buf, d.taken = d.buf[:0], 0
	}
	if full {
		d.changed.Broadcast()
	}
	return n, nil
}

func (d *direction) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.changed.Broadcast()
}

// A Conn is one end of a connection: it writes to one direction and reads from the other.
type Conn struct{ in, out *direction }

// New returns both ends of a connection. Unlike those of net.Pipe they have a buffer; each
// message costs a third.
func New() (here, there *Conn) {
	a, b := newDirection(), newDirection()
	return &Conn{a, b}, &Conn{b, a}
}

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write implements io.Writer. It waits while too much is unread.
func (c *Conn) Write(p []byte) (int, error) { return c.out.write(p, true) }

// TryWrite and WriteAll make a connection an output of transport.Writer that doesn't wait, as a
// socket is one.

// TryWrite writes p, or nothing while too much is unread.
func (c *Conn) TryWrite(p []byte) (int, error) { return c.out.write(p, false) }

// WriteAll writes p without its first bytes, which are sent already.
func (c *Conn) WriteAll(p []byte, sent int) error {
	_, err := c.Write(p[sent:])
	return err
}

// Close ends both directions. What was written before can still be read.
func (c *Conn) Close() error {
	c.in.close()
	c.out.close()
	return nil
}
