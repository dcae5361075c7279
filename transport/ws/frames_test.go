package ws

import (
	"slices"
	"testing"
	"time"

	"kernos/internal/testkit"
)

// What is answered does not wait for the rest of a frame that has begun to come.
func TestAnswersDoNotWaitForTheNextFrame(t *testing.T) {
	s := serve(t, nil)
	next := text(call("next")).bytes()
	for _, begun := range []int{1, 5, len(next) - 1} {
		p, _ := connect(t, s, "")
		p.send(slices.Concat(text(call(hello)).bytes(), next[:begun]), 0)
		if got := p.event(); got != "echo "+hello {
			t.Errorf("after %d bytes of the next frame: got %s", begun, got)
		}
		p.send(next[begun:], 0)
		if got := p.event(); got != "echo next" {
			t.Errorf("after the next frame: got %s", got)
		}
	}
}

// Who stops in the middle of a header is as silent as who sends nothing.
func TestPeerThatStopsInAHeaderIsDropped(t *testing.T) {
	s := serve(t, &Options{Ping: 100 * time.Millisecond})
	p, _ := connect(t, s, "")
	p.send(slices.Concat(text(call(hello)).bytes(), []byte{0x81}), 0)
	if got := p.event(); got != "echo "+hello {
		t.Errorf("got %s", got)
	}
	if got := p.event(); got != "close 1008" {
		t.Errorf("got %s", got)
	}
	testkit.Until(t, "it counts", func() bool { return s.Stats().Closed[Silent] == 1 })
}

func TestLengthOf64BitsIsRefused(t *testing.T) {
	p, _ := connect(t, serve(t, nil), "")
	p.send([]byte{0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4}, 0)
	if got := []string{p.event(), p.event()}; !slices.Equal(got, []string{"close 1002", "end"}) {
		t.Errorf("got %v", got)
	}
}
