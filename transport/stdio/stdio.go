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
	input := transport.Stoppable(ctx, in)
	defer func() { _ = input.Close() }()
	result, err := transport.Serve(ctx, k, input, out, opts)
	if w, ok := errors.AsType[*transport.WriteError](err); ok && errors.Is(w, syscall.EPIPE) {
		return result, nil
	}
	return result, err
}
