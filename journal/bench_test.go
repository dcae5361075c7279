package journal

import (
	"encoding/json"
	"testing"

	"kernos/kernel"
	"kernos/schema"
	"kernos/store"
)

// nowhere is a store that takes everything and keeps nothing.
type nowhere struct{ store.Store }

func (nowhere) Get([]byte) (store.Entry, error)           { return store.Entry{}, nil }
func (nowhere) Apply(*store.Batch) (*store.Commit, error) { return store.Committed(1), nil }
func (nowhere) Barrier() *store.Commit                    { return store.Committed(1) }

var ping = &kernel.Syscall{Definition: kernel.Definition{Type: "Ping", Input: schema.Any, Output: schema.Any}}

func BenchmarkRecord(b *testing.B) {
	j := New(nowhere{memory(b)}, &Options{Log: quiet})
	m := query("01JAXV5Y2Z4B8Q0R6T7W9E3F1G", "Ping", `{"payload":"hello"}`)
	reply := made(m.Reply(json.RawMessage(`{"pong":true,"payload":"hello"}`)))
	request, answer := in(m), out(reply)
	request.Syscall, answer.Syscall = ping, ping
	b.ReportAllocs()
	for b.Loop() {
		j.Record(request)
		j.Record(answer)
	}
	b.StopTimer()
	_ = j.Close()
}
