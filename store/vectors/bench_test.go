package vectors_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/vectors"
)

// BenchmarkSearch compares a search of the index with a loop over all vectors as they are.
func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		random := rand.New(rand.NewPCG(1, 2))
		all := clustered(random, n, 256)
		s, err := pebble.Open(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		x := vectors.NewIndex(s, []byte("v"), 256, vectors.NewCache(1<<30, time.Hour))
		for at := 0; at < n; at += 1000 {
			apply(b, s, func(batch *store.Batch) {
				for i, v := range all[at : at+1000] {
					if err := x.Add(batch, uint64(at+i+1), v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		if err := x.Pack(b.Context()); err != nil {
			b.Fatal(err)
		}
		query := func(i int) []float32 { return all[i*7919%n] }
		b.Run(fmt.Sprintf("index/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if hits, err := x.Search(b.Context(), vectors.Query{Vector: query(i), Limit: 10}); err != nil || len(hits) != 10 {
					b.Fatal(hits, err)
				}
			}
		})
		b.Run(fmt.Sprintf("narrow filter/%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				q := vectors.Query{Vector: query(i), Limit: 10, Accept: func(id uint64) bool { return id%500 == 1 }}
				if hits, err := x.Search(b.Context(), q); err != nil || len(hits) != 10 {
					b.Fatal(hits, err)
				}
			}
		})
		b.Run(fmt.Sprintf("loop/%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				best(all, query(i), 10)
			}
		})
	}
}

// BenchmarkAdd measures a vector until it is found by its signs: it is added, and packed.
func BenchmarkAdd(b *testing.B) {
	const n = 1000
	all := clustered(rand.New(rand.NewPCG(1, 2)), n, 192)
	s, err := pebble.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	x := vectors.NewIndex(s, []byte("v"), 192, nil)
	b.ReportAllocs()
	for at := uint64(0); b.Loop(); at += n {
		apply(b, s, func(batch *store.Batch) {
			for i, v := range all {
				if err := x.Add(batch, at+uint64(i)+1, v); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := x.Pack(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/vector")
}

// best is a loop over all vectors that keeps the best ten: what a plain program does.
func best(all [][]float32, query []float32, limit int) []vectors.Hit {
	hits := make([]vectors.Hit, 0, limit+1)
	for i, v := range all {
		var sum float32
		v = v[:len(query)]
		for j, q := range query {
			sum += q * v[j]
		}
		if len(hits) == limit && sum <= hits[limit-1].Score {
			continue
		}
		at := len(hits)
		for at > 0 && hits[at-1].Score < sum {
			at--
		}
		hits = append(hits[:at], append([]vectors.Hit{{ID: uint64(i + 1), Score: sum}}, hits[at:]...)...)
		hits = hits[:min(len(hits), limit)]
	}
	return hits
}
