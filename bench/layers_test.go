package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/message"
	"kernos/store"
	"kernos/store/pebble"
)

// What one durable change after the other costs, layer by layer.

func BenchmarkLayer(b *testing.B) {
	value := make([]byte, 150)
	b.Run("fsync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "f"))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			_, _ = f.Write(make([]byte, 300))
			_ = f.Sync()
		}
		_ = f.Close()
	})
	b.Run("library", func(b *testing.B) {
		db, err := crdb.Open(b.TempDir(), &crdb.Options{Logger: quiet{}})
		if err != nil {
			b.Fatal(err)
		}
		i := 0
		for b.Loop() {
			batch := db.NewBatch()
			_ = batch.Set(fmt.Appendf(nil, "ma%d", i%1000), value, nil)
			_ = batch.Set(fmt.Appendf(nil, "mh%d", i), value, nil)
			_ = batch.Commit(crdb.Sync)
			_ = batch.Close()
			i++
		}
		_ = db.Close()
	})
	b.Run("engine", func(b *testing.B) {
		s, err := pebble.Open(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		i := 0
		for b.Loop() {
			var batch store.Batch
			batch.Set(fmt.Appendf(nil, "ma%d", i%1000), value)
			batch.Set(fmt.Appendf(nil, "mh%d", i), value)
			c, _ := s.Apply(&batch)
			_ = c.Wait(context.Background())
			i++
		}
		_ = s.Close()
	})
	b.Run("kernel", func(b *testing.B) {
		p, err := newPlace(b.TempDir(), false)
		if err != nil {
			b.Fatal(err)
		}
		i := 0
		for b.Loop() {
			m := message.Message{Kind: message.KindCommand, Type: "Memory.Set", Data: fmt.Appendf(nil, `{"key":"/k/%d","value":"a note of some length, as an agent would keep one"}`, i%1000),
				Metadata: message.Metadata{ID: "x", Timestamp: 1}}
			p.kernel.Handle(context.Background(), m, func(message.Message) {})
			i++
		}
		_ = p.close()
	})
}
