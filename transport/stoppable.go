package transport

import (
	"context"
	"io"
)

// chunkSize is how many bytes are read at once.
const chunkSize = 64 << 10

// Stoppable returns what comes from in, until ctx is done: a blocking read of standard input
// can't be interrupted. The error is then the cause of ctx. One chunk waits while the one before it is worked on. The goroutine
// ends with the input, or when something comes after Close.
func Stoppable(ctx context.Context, in io.Reader) *io.PipeReader {
	read, write := io.Pipe()
	forget := context.AfterFunc(ctx, func() { _ = write.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer forget()
		_, err := io.CopyBuffer(write, struct{ io.Reader }{in}, make([]byte, chunkSize)) // hides WriteTo, so that the copy goes by chunks
		_ = write.CloseWithError(err)
	}()
	return read
}
