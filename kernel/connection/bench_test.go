package connection_test

import (
	"context"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
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
