package rpc

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

// frames is a wire that brings some frames and keeps what is written.
type frames struct {
	in  []string
	out bytes.Buffer
}

func (f *frames) Read() ([]byte, error) {
	if len(f.in) == 0 {
		return nil, io.EOF
	}
	next := f.in[0]
	f.in = f.in[1:]
	return []byte(next), nil
}

func (f *frames) Write(frame []byte, _ bool) { f.out.Write(frame) }

func (f *frames) Flush() {}

func (f *frames) Left(<-chan struct{}) bool { return true }

// A small batch does not make a response of any size.
func TestResponseToABatchIsBounded(t *testing.T) {
	s := newService(t, nil)
	const one = `{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}`
	f := &frames{in: []string{"[" + strings.Repeat(one+",", maxBatch-1) + one + "]"}}
	_ = s.Serve(context.Background(), f)
	most := maxBatchOut + len(discovered(s)) + 300*maxBatch
	if n := f.out.Len(); n > most {
		t.Errorf("%d bytes came, expected at most %d", n, most)
	}
	if len(discovered(s))*maxBatch > maxBatchOut && !strings.Contains(f.out.String(), "Response too large") {
		t.Error("no peer was told")
	}
	if told := strings.Count(f.out.String(), "Response too large"); told != strings.Count(f.out.String(), `"data":{"name":"response_too_large"}}`) {
		t.Error("the error has no name")
	}
}
