package transport

import (
	"io"
	"time"
)

// part is how many bytes a peer has to take within the time of one write.
const part = 64 << 10

// A TimedWriter is a writer whose writes may have a deadline, as those of a [net.Conn].
type TimedWriter interface {
	io.Writer
	SetWriteDeadline(time.Time) error
}

// WriteInTime writes p in parts of 64 KB, and gives the peer a time for each: the whole may take
// longer. The deadline is cleared at the end; otherwise it would apply to [Socket.TryWrite].
func WriteInTime(w TimedWriter, p []byte, each time.Duration) (written int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	for written < len(p) && err == nil {
		_ = w.SetWriteDeadline(time.Now().Add(each))
		var n int
		n, err = w.Write(p[written:min(len(p), written+part)])
		written += n
	}
	_ = w.SetWriteDeadline(time.Time{})
	return written, err
}
