package jetstream

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/nats-io/nats.go"

	"kernos/cluster/clustertest"
	"kernos/store/replicated"
)

// BenchmarkAppend compares a lone entry with a lone message of the same size that the client of NATS publishes.
func BenchmarkAppend(b *testing.B) {
	servers := clustertest.Shared(b, 3)
	stream := open(b, servers, servers.Connect(b), Options{Replicas: 3})
	for _, size := range []int{300, 64 << 10} {
		group := make([]byte, size)
		b.Run(fmt.Sprintf("publish/%d", size), func(b *testing.B) {
			for b.Loop() {
				if _, err := stream.js.PublishMsg(b.Context(), &nats.Msg{Subject: stream.Subject("bench"), Data: group}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("append/%d", size), func(b *testing.B) {
			log := stream.Log(origin)
			last, err := log.Last(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			after, first := last.Sequence, last.Next()
			for b.Loop() {
				if after, err = log.Append(b.Context(), after, replicated.Entry{Epoch: 1, First: first, Groups: [][]byte{group}}); err != nil {
					b.Fatal(err)
				}
				first++
			}
		})
	}
}

// BenchmarkObject writes and reads a large object.
func BenchmarkObject(b *testing.B) {
	servers := clustertest.Shared(b, 3)
	objects := open(b, servers, servers.Connect(b), Options{Replicas: 3}).Objects()
	data := bytes.Repeat([]byte("0123456789abcdef"), 32<<20/16)
	b.SetBytes(int64(len(data)))
	count := 0
	b.Run("put", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := objects.Put(b.Context(), fmt.Sprint(count), bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
			count++
		}
	})
	b.Run("get", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := objects.Get(b.Context(), "0", io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
}
