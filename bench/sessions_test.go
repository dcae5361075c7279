package main

import (
	"fmt"
	"io"
	"testing"
)

// A delta of a model's answer costs at most 8 allocations on its way from the provider through a
// session to a client of the socket, those of the turn around it included.
func TestADeltaOfASession(t *testing.T) {
	const words = 2000
	_, allocs := speak(t, "50us", words)
	if allocs > 8 {
		t.Errorf("a delta costs %.1f allocations", allocs)
	}
}

// Many sessions stream at once, and each client has all of its answer.
func TestStreamsAtOnce(t *testing.T) {
	p := newProvider(t)
	if err := manyStreams(io.Discard, t.TempDir(), p.Addr().String(), 100, 20); err != nil {
		t.Error(err)
	}
}

func BenchmarkSessionDelta(b *testing.B) {
	for _, pause := range []string{"0s", "100us"} {
		b.Run(pause, func(b *testing.B) {
			events, allocs := speak(b, pause, b.N)
			b.ReportMetric(events, "events/op")
			b.ReportMetric(allocs, "allocs/op")
		})
	}
}

func newProvider(t testing.TB) *provider {
	p, err := listenProvider()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// speak lets a session stream an answer, the second one that it gives, and returns how many events
// came for a word, and how many allocations it cost.
func speak(t testing.TB, pause string, words int) (events, allocs float64) {
	way := fmt.Sprintf("%s/%d", pause, words)
	w, err := openSpeaking(t.TempDir(), newProvider(t).Addr().String(), way)
	if err != nil {
		t.Fatal(err)
	}
	l, err := w.listen(way)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.say(); err != nil {
		t.Fatal(err)
	}
	if b, ok := t.(*testing.B); ok {
		b.ResetTimer()
	}
	c, err := costOf(words, l.say)
	if err != nil || l.bytes != said(words) {
		t.Fatalf("%d bytes of %d came, %v", l.bytes, said(words), err)
	}
	if b, ok := t.(*testing.B); ok {
		b.StopTimer()
	}
	_ = l.conn.Close()
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	return float64(l.deltas) / float64(words), c.allocs
}
