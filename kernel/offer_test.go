package kernel

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message"
)

// An asked connection knows whether others wait for its peer.
type asked struct {
	*connection
	serves func() bool
}

func (a *asked) Asked(serves func() bool) { a.serves = serves }

// What peers serve is known, and how busy they are with it; and a peer serves as long as it
// offers something, or has something to answer.
func TestWhatPeersServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peer *Peer
		var withdraw func()
		tired := false
		offer := raw("Test.Offer", func(ctx context.Context, m message.Message, emit Emit) {
			peer, _ = PeerOf(ctx)
			withdraw = peer.Offer("Test.Ask", func() bool { return tired })
			if k, ok := Of(ctx); !ok || len(k.Services()) == 0 {
				t.Error("a handler does not find its kernel")
			}
			emit(m.Reply(m.Data))
		})
		k := newKernel(t, nil, offer, within(time.Minute, asking("Test.Ask", func() *Peer { return peer })))
		server := &asked{connection: newConnection(10, 16)}
		go func() { server.ended <- k.Serve(context.Background(), server) }()
		caller := connect(k)
		synctest.Wait()
		check := func(serves bool, want ...Service) {
			t.Helper()
			synctest.Wait()
			if got := k.Services(); !slices.Equal(got, want) || server.serves() != serves {
				t.Errorf("serves is %v; got %+v, want %+v", server.serves(), got, want)
			}
		}
		check(false)
		server.in <- query("offer", "Test.Offer", `1`)
		check(true, Service{Type: "Test.Ask", Connections: 1})
		caller.in <- query("q", "Test.Ask", `1`)
		caller.in <- query("r", "Test.Ask", `1`)
		check(true, Service{Type: "Test.Ask", Connections: 1, Waiting: 2})
		tired = true
		check(true, Service{Type: "Test.Ask", Connections: 1, Waiting: 2, Resting: 1})
		withdraw()
		check(true, Service{Type: "Test.Ask", Waiting: 2})
		for _, request := range server.messages()[1:] {
			server.in <- message.Message{Kind: message.KindReply, Type: "Test.Ask", Data: []byte(`1`), Metadata: message.Metadata{ID: "r", Timestamp: 1, Causation: request.Metadata.ID}}
		}
		check(false)
		for _, c := range []*connection{caller, server.connection} {
			if err := c.end(); err != nil {
				t.Error(err)
			}
		}
	})
	if _, ok := Of(t.Context()); ok {
		t.Error("no call has a kernel")
	}
}
