package session_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"kernos/capability/session"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/pebble"
)

// BenchmarkDelta is the way of a delta from Model.Streamed to a watcher's Session.Streamed.
func BenchmarkDelta(b *testing.B) {
	s, err := pebble.Open(filepath.Join(b.TempDir(), "store"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	sessions := session.New(&session.Options{Store: s, Find: func(principal.ID) (*principal.Principal, error) { return principal.TheOwner(), nil }})
	begin, n := make(chan struct{}), 0
	generate := kernel.Definition{
		Type:     "Model.Generate",
		Kind:     message.KindCommand,
		Summary:  "Generate.",
		Input:    anyObject,
		Output:   anyObject,
		Emits:    []kernel.EventDefinition{{Type: "Model.Streamed", Unrecorded: true}},
		Behavior: kernel.Behavior{Runs: kernel.Slow},
	}.BindHandler(func(_ context.Context, m message.Message, emit kernel.Emit) {
		<-begin
		for range n {
			emit(m.Event("Model.Streamed", []byte(`{"part":0,"type":"reply","delta":{"text":"word "}}`)))
		}
		emit(m.Reply([]byte(`{"model":"m","finish":"stop","messages":[{"part":0,"type":"reply","text":"x"}],"usage":{"input":1,"output":1}}`)))
	})
	k := kerneltest.Of(b, &kernel.Options{Store: s}, sessions.Module(), kerneltest.Module("test", generate))
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { sessions.Run(ctx, k); close(ended) }()
	defer func() { stop(); <-ended }()
	sessions.Begin(k)
	created := kerneltest.Answer(b, k, kerneltest.Command("1", "Session.Create", `{}`))
	n = b.N
	b.ReportAllocs()
	b.ResetTimer()
	deltas := 0
	close(begin)
	k.Handle(b.Context(), kerneltest.Command("2", "Session.Send", fmt.Sprintf(`{"session":%q,"text":"x","wait":true}`, string(created.Data[12:38]))), func(m message.Message) {
		if m.Type == "Session.Streamed" {
			deltas++
		}
	})
	b.ReportMetric(float64(deltas)/float64(b.N), "sent/delta")
}
