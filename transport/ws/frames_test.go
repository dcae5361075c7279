package ws_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	gobwas "github.com/gobwas/ws"
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
	synctest.Test(t, func(t *testing.T) {
		s := handler(t, nil)
		conn, in := s.pipe()
		if _, err := conn.Write(slices.Concat(text(call(hello)).bytes(), []byte{0x81})); err != nil {
			t.Fatal(err)
		}
		if f, err := gobwas.ReadFrame(in); err != nil || f.Header.OpCode != gobwas.OpText { // what was whole is answered
			t.Fatalf("got %+v, %v", f, err)
		}
		if code, reason := farewell(t, in); code != gobwas.StatusPolicyViolation || !strings.HasPrefix(reason, "Silent peer: ") {
			t.Errorf("got %d %s", code, reason)
		}
		if s.Stats().Closed["silent"] != 1 {
			t.Errorf("got %+v", s.Stats())
		}
	})
}

func TestLengthOf64BitsIsRefused(t *testing.T) {
	p, _ := connect(t, serve(t, nil), "")
	p.send([]byte{0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4}, 0)
	if got := []string{p.event(), p.event()}; !slices.Equal(got, []string{"close 1002", "end"}) {
		t.Errorf("got %v", got)
	}
}
