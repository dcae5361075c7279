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
	input := stoppable(ctx, in)
	defer func() { _ = input.Close() }()
	result, err := transport.Serve(ctx, k, input, out, opts)
	if w, ok := errors.AsType[*transport.WriteError](err); ok && errors.Is(w, syscall.EPIPE) {
		return result, nil
	}
	return result, err
}

// chunkSize is how many bytes are read at once.
const chunkSize = 64 << 10

// stoppable returns what comes from in, until ctx is done: a blocking read of standard input
// can't be interrupted. One chunk waits while the one before it is worked on. The goroutine
// ends with the input, or when something comes after Close.
func stoppable(ctx context.Context, in io.Reader) *io.PipeReader {
	read, write := io.Pipe()
	forget := context.AfterFunc(ctx, func() { _ = write.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer forget()
		_, err := io.CopyBuffer(write, struct{ io.Reader }{in}, make([]byte, chunkSize)) // by its methods alone, in chunks
		_ = write.CloseWithError(err)
	}()
	return read
}
