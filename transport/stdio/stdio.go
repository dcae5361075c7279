// Package stdio talks NDJSON over standard input and output, in process: the wire of
// kernos pipe --inline, and of any program that gives a kernel two pipes.
package stdio

import (
	"context"
	"errors"
	"io"
	"syscall"

	"kernos/kernel"
	"kernos/transport"
)

// Serve answers the messages on in until it ends, or until ctx is done: then it
// stops reading, finishes what has begun, and returns the cause.
//
// A reader that goes away (kernos pipe | head -1) is not an error.
func Serve(ctx context.Context, k *kernel.Kernel, in io.Reader, out io.Writer, opts *transport.Options) (transport.Result, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	result, err := transport.Serve(ctx, k, newPump(reading, in), out, opts)
	if w, ok := errors.AsType[*transport.WriteError](err); ok && errors.Is(w, syscall.EPIPE) {
		return result, nil
	}
	return result, err
}

// pump reads ahead, so that a read can be given up: a blocking read of standard
// input can't be interrupted. Its goroutine ends with the input or with the context,
// but not in the middle of a read.
type pump struct {
	ctx    context.Context
	chunks chan chunk  // read, not yet handed out; one waits while the next is read
	free   chan []byte // buffers to read into
	last   chunk       // what Read is handing out
	rest   []byte      // of it
}

type chunk struct {
	buf []byte
	n   int
	err error
}

const (
	chunkSize = 64 << 10
	chunks    = 2
)

func newPump(ctx context.Context, in io.Reader) *pump {
	p := &pump{ctx: ctx, chunks: make(chan chunk, chunks), free: make(chan []byte, chunks)}
	for range chunks {
		p.free <- make([]byte, chunkSize)
	}
	go p.run(in)
	return p
}

func (p *pump) run(in io.Reader) {
	for {
		select {
		case buf := <-p.free:
			n, err := in.Read(buf)
			p.chunks <- chunk{buf, n, err} // there is room: there are no more buffers
			if err != nil {
				return
			}
		case <-p.ctx.Done():
			return
		}
	}
}

// Read implements [io.Reader].
func (p *pump) Read(b []byte) (int, error) {
	if len(p.rest) == 0 && p.last.err == nil {
		if p.last.buf != nil {
			p.free <- p.last.buf
		}
		select {
		case p.last = <-p.chunks:
			p.rest = p.last.buf[:p.last.n]
		case <-p.ctx.Done():
			p.last = chunk{err: context.Cause(p.ctx)}
		}
	}
	n := copy(b, p.rest)
	if p.rest = p.rest[n:]; len(p.rest) == 0 {
		return n, p.last.err
	}
	return n, nil
}
