package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Each part of a long text has its own time, and the deadline is gone afterwards.
func TestEachPartHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = near.Close() }()
		text := make([]byte, 4*part)
		go func() {
			for range 4 {
				time.Sleep(900 * time.Millisecond)
				_, _ = io.CopyN(io.Discard, far, part)
			}
		}()
		if n, err := WriteInTime(near, text, time.Second); n != len(text) || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		go func() {
			time.Sleep(time.Minute)
			_ = far.Close()
		}()
		if _, err := near.Write([]byte("x")); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a later write has the deadline")
		}
	})
}

// A peer that doesn't take a part in time ends it.
func TestAPartThatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _, _ = near.Close(), far.Close() }()
		go func() { _, _ = io.ReadFull(far, make([]byte, part+10)) }()
		if n, err := WriteInTime(near, bytes.Repeat([]byte("x"), 2*part), time.Second); n != part+10 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}
