package transport_test

import (
	"io"
	"runtime"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel/kerneltest"
	"kernos/transport"
)

// What a message costs from line to line is what the kernel's throughput hangs on. The
// margin is for the buffers, which are shared by all messages.
func TestPingCostsAtMostFourAllocations(t *testing.T) {
	const messages, most = 10_000, 4.2
	k := kerneltest.Around(t, nil, introspect.Module)
	serve := func(n int) {
		if _, err := transport.Serve(t.Context(), k, &repeat{line: []byte(ping("msg-0000001")), left: n}, io.Discard, nil); err != nil {
			t.Fatal(err)
		}
	}
	serve(100) // schemas are compiled when they are first used
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	serve(messages)
	runtime.ReadMemStats(&after)
	if got := float64(after.Mallocs-before.Mallocs) / messages; got > most {
		t.Errorf("a message costs %.2f allocations", got)
	}
}
