package connection_test

import (
	"context"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
)

// BenchmarkRoute is what the kernel itself costs: from a message that is read to its
// outcome.
func BenchmarkRoute(b *testing.B) {
	type in struct {
		Message string `json:"message"`
	}
	k := kerneltest.New(b, nil, kerneltest.Echo("Test.Raw"),
		kernel.Query(kernel.Definition{Type: "Test.Typed", Summary: "Echo."}, func(_ context.Context, in in) (in, error) { return in, nil }))
	for _, name := range []message.Type{"Test.Raw", "Test.Typed"} {
		b.Run(string(name), func(b *testing.B) {
			b.ReportAllocs()
			kerneltest.Repeat(b, k, kerneltest.Query("1", name, `{"message":"hello"}`))
		})
	}
}

// BenchmarkFence is what it costs that answers wait for a fence, which is reached already: nothing is pending.
func BenchmarkFence(b *testing.B) {
	reached := store.Committed(0)
	for _, c := range []struct {
		name string
		opts kernel.Options
	}{{"without", kernel.Options{}}, {"reached", kernel.Options{Fence: func() *store.Commit { return reached }}}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			kerneltest.Repeat(b, kerneltest.New(b, &c.opts, kerneltest.Echo("Test.Raw")), kerneltest.Query("1", "Test.Raw", `{"message":"hello"}`))
		})
	}
}
