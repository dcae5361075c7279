package http

import (
	"fmt"
	"io"

	"kernos/kernel"
)

// progressStep is how many bytes of a body come before the caller is told.
const progressStep = 1 << 20

// A progress tells the caller how far a large body has come, in at most some twenty
// events: in steps of a twentieth if the server has said how long the body is, and at each
// doubling if it has not.
type progress struct {
	src    io.Reader
	total  int64 // or -1
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
