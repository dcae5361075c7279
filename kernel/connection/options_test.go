package connection_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// A connection may have more slow calls at once than others, cancels each of them, and has no
// peer that could be sent requests.
func TestOptionsOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := kerneltest.Within(time.Hour, kerneltest.Slow(kerneltest.Raw("Test.Wait", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			if _, ok := connection.PeerOf(ctx); ok {
				t.Error("there is a peer")
			}
			<-ctx.Done()
			kernel.Fail(ctx, m, emit, ctx.Err())
		})))
		wire := kerneltest.NewWire(100, 16)
		served := wire.ServeWith(t.Context(), kerneltest.New(t, &kernel.Options{InFlight: 1}, wait), &connection.Options{InFlight: 100, NoRequests: true})
		id := func(i int) message.ID { return message.ID(fmt.Sprint(i)) }
		for i := range 100 {
			wire.In <- kerneltest.Query(id(i), "Test.Wait", `null`)
		}
		synctest.Wait()
		if served.Cancel("nothing") {
			t.Error("a call that is not there was cancelled")
		}
		for i := range 100 {
			if !served.Cancel(id(i)) {
				t.Errorf("call %d is not there", i)
			}
			synctest.Wait()
			if got := wire.Messages(); len(got) != i+1 || got[i].Metadata.Causation != id(i) || got[i].Kind != message.KindError {
				t.Errorf("got %s", kerneltest.Texts(got))
			}
		}
		if err := wire.End(); err != nil {
			t.Error(err)
		}
	})
}
