package memory

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/pebble"
)

// BenchmarkServe is what a message costs on a connection, from its envelope to its reply,
// with the engine on disk; Ping beside it is what the kernel alone takes.
func BenchmarkServe(b *testing.B) {
	s, err := pebble.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	d, err := blobs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	k := kerneltest.Of(b, &kernel.Options{Store: s}, New(s, d, nil).Module(), kerneltest.Module("test", introspect.Ping))
	var batch store.Batch
	for i := range 10_000 {
		v := version{versionSpan: versionSpan{revision: 1, oldest: 1}, updated: start, message: []byte("b"), text: []byte(`"Note content here"`)}
		batch.Set(currentKey(memoryKey(fmt.Sprintf("notes/%d", i))), v.append(nil))
	}
	if _, err := s.Apply(&batch); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		kind message.Kind
		t    message.Type
		data string
	}{
		{"Ping", message.KindQuery, "Ping", `{"payload":"Note content here"}`},
		{"Get", message.KindQuery, "Memory.Get", `{"key":"/notes/1"}`},
		{"GetWithRevision", message.KindQuery, "Memory.Get", `{"key":"/notes/1","withRevision":true}`},
		{"ListNothing", message.KindQuery, "Memory.List", `{"prefix":"none"}`},
		{"Set", message.KindCommand, "Memory.Set", `{"key":"/notes/2","value":"Note content here"}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			kerneltest.Repeat(b, k, kerneltest.Request(c.kind, "b", c.t, c.data))
		})
	}
}

// BenchmarkClients is what a command of one of 64 clients costs, each of which has a connection, if they
// change a key each, and if they all change one.
func BenchmarkClients(b *testing.B) {
	s, err := pebble.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	d, err := blobs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	k := kerneltest.Of(b, &kernel.Options{Store: s}, New(s, d, nil).Module())
	for _, c := range []struct{ name, action, data string }{
		{"SetDifferent", "Memory.Set", `{"key":"notes/%d","value":"Note content here"}`},
		{"SetOne", "Memory.Set", `{"key":"notes/one","value":"Note content here"}`},
		{"IncrementDifferent", "Memory.Increment", `{"key":"counters/%d"}`},
		{"IncrementOne", "Memory.Increment", `{"key":"counters/one"}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var clients []message.Message
			for i := range 64 {
				clients = append(clients, kerneltest.Command("b", message.Type(c.action), strings.Replace(c.data, "%d", strconv.Itoa(i), 1)))
			}
			kerneltest.Repeat(b, k, clients...)
		})
	}
}

// BenchmarkGet is the handler alone, without the kernel around it.
func BenchmarkGet(b *testing.B) {
	w := newWorld(b, Options{})
	w.reply("Set", `{"key":"notes/1","value":"Note content here"}`, ok)
	data := []byte(`{"key":"/notes/1"}`)
	b.ReportAllocs()
	for b.Loop() {
		var in getInput
		if err := in.UnmarshalJSON(data); err != nil {
			b.Fatal(err)
		}
		if _, err := w.memory.read(context.Background(), &in); err != nil {
			b.Fatal(err)
		}
	}
}
