package connection_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// What peers serve is known, and how busy they are with it; and a peer serves as long as it
// offers something, or has something to answer.
func TestWhatPeersServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peer *connection.Peer
		var withdraw func()
		tired := false
		offer := kerneltest.Raw("Test.Offer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			peer, _ = connection.PeerOf(ctx)
			withdraw = peer.Offer("Test.Ask", func() bool { return tired })
			if k, ok := kernel.Of(ctx); !ok || len(k.Services()) == 0 {
				t.Error("a handler does not find its kernel")
			}
			emit(m.Reply(m.Data))
		})
		k := kerneltest.New(t, nil, offer, kerneltest.Within(time.Minute, asking("Test.Ask", func() *connection.Peer { return peer })))
		server := kerneltest.NewWire(10, 16)
		served := server.Serve(k)
		caller := kerneltest.Connect(k)
		synctest.Wait()
		check := func(serves bool, want ...kernel.Service) {
			t.Helper()
			synctest.Wait()
			if got := k.Services(); !slices.Equal(got, want) || served.Serves() != serves {
				t.Errorf("serves is %v; got %+v, want %+v", served.Serves(), got, want)
			}
		}
		check(false)
		server.In <- kerneltest.Query("offer", "Test.Offer", `1`)
		check(true, kernel.Service{Type: "Test.Ask", Connections: 1})
		caller.In <- kerneltest.Query("q", "Test.Ask", `1`)
		caller.In <- kerneltest.Query("r", "Test.Ask", `1`)
		check(true, kernel.Service{Type: "Test.Ask", Connections: 1, Waiting: 2})
		tired = true
		check(true, kernel.Service{Type: "Test.Ask", Connections: 1, Waiting: 2, Resting: 1})
		withdraw()
		check(true, kernel.Service{Type: "Test.Ask", Waiting: 2})
		for _, request := range server.Messages()[1:] {
			server.In <- message.Message{Kind: message.KindReply, Type: "Test.Ask", Data: []byte(`1`), Metadata: message.Metadata{ID: "r", Timestamp: 1, Causation: request.Metadata.ID}}
		}
		check(false)
		for _, c := range []*kerneltest.Wire{caller, server} {
			if err := c.End(); err != nil {
				t.Error(err)
			}
		}
	})
	if _, ok := kernel.Of(t.Context()); ok {
		t.Error("no call has a kernel")
	}
}
