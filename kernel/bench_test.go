package kernel

import (
	"testing"

	"kernos/schema"
)

// BenchmarkRedact is what it costs that everything that is kept is looked at.
func BenchmarkRedact(b *testing.B) {
	marks := &Syscall{Definition: Definition{Type: "Account.Login", Input: parsed(b, `{"properties":{"user":{},"password":{"writeOnly":true}}}`), Output: schema.Any}}
	plain := &Syscall{Definition: Definition{Type: "Memory.Set", Input: schema.Any, Output: schema.Any}}
	for _, c := range []struct {
		name    string
		syscall *Syscall
		data    string
	}{
		{"ordinary", plain, `{"key":"/notes/2024/shopping","value":"bread, milk and a bit of"}`},
		{"nothing marked", marks, `{"user":"ada"}`},
		{"marked", marks, `{"user":"ada","password":"hunter2"}`},
		{"no header", plain, `{"key":"/notes/2024/shopping","value":"bread, milk and a token of affection"}`},
		{"header", plain, `{"url":"https://example.com/","headers":{"Accept":"text/html","Authorization":"Bearer x"}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := command("a", c.syscall.Type, c.data)
			r := Record{Message: &m, Syscall: c.syscall}
			b.ReportAllocs()
			for b.Loop() {
				Redact(r)
			}
		})
	}
}
