package kernel_test

import (
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/schema"
)

// BenchmarkRedact is what it costs that everything that is kept is looked at.
func BenchmarkRedact(b *testing.B) {
	marks := &kernel.Syscall{Definition: kernel.Definition{Type: "Account.Login", Input: parsed(b, `{"properties":{"user":{},"password":{"writeOnly":true}}}`), Output: schema.Any}}
	plain := &kernel.Syscall{Definition: kernel.Definition{Type: "Memory.Set", Input: schema.Any, Output: schema.Any}}
	for _, c := range []struct {
		name    string
		syscall *kernel.Syscall
		data    string
	}{
		{"ordinary", plain, `{"key":"/notes/2024/shopping","value":"bread, milk and a bit of"}`},
		{"nothing marked", marks, `{"user":"ada"}`},
		{"marked", marks, `{"user":"ada","password":"hunter2"}`},
		{"no header", plain, `{"key":"/notes/2024/shopping","value":"bread, milk and a token of affection"}`},
		{"header", plain, `{"url":"https://example.com/","headers":{"Accept":"text/html","Authorization":"Bearer x"}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := kerneltest.Command("a", c.syscall.Type, c.data)
			r := kernel.Record{Message: &m, Syscall: c.syscall}
			b.ReportAllocs()
			for b.Loop() {
				kernel.Redact(r)
			}
		})
	}
}
