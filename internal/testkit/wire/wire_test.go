package wire

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEverythingArrivesInOrder(t *testing.T) {
	here, there := New()
	text := make([]byte, 3*size)
	for i := range text {
		text[i] = byte(i * 7919 >> 8)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for rest := text; len(rest) > 0; {
			n := min(700, len(rest))
			if _, err := here.Write(rest[:n]); err != nil {
				t.Error(err)
			}
			rest = rest[n:]
		}
		_ = here.Close()
	})
	got, err := io.ReadAll(there)
	both.Wait()
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d came, or others: %v", len(got), len(text), err)
	}
}

func TestWhatWasWrittenBeforeTheEndCanBeRead(t *testing.T) {
	here, there := New()
	if _, err := here.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	_ = there.Close()
	if _, err := here.Write([]byte("x")); err != io.ErrClosedPipe {
		t.Errorf("writing to a closed connection: %v", err)
	}
	if n, err := io.Copy(io.Discard, there); n != size || err != nil {
		t.Errorf("%d bytes could be read: %v", n, err)
	}
}
