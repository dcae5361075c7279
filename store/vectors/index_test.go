package vectors_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kernos/store"
	"kernos/store/storetest"
	"kernos/store/vectors"
)

// clustered returns vectors as models make them: many are near to each other, none has a direction of its own.
func clustered(random *rand.Rand, n, dimensions int) [][]float32 {
	centres := make([][]float32, 1+n/50)
	for i := range centres {
		centres[i] = noise(random, dimensions)
	}
	all := make([][]float32, n)
	for i := range all {
		c := centres[random.IntN(len(centres))]
		all[i] = noise(random, dimensions)
		for j := range c {
			all[i][j] += c[j]
		}
	}
	return all
}

func noise(random *rand.Rand, dimensions int) []float32 {
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(random.NormFloat64())
	}
	return v
}

// cosine is what a score should be.
func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return dot / math.Sqrt(aa*bb)
}

// plain is the search that an index is compared with: a loop over all vectors.
func plain(all map[uint64][]float32, q vectors.Query) []vectors.Hit {
	var hits []vectors.Hit
	for id, v := range all {
		if id >= q.From && (q.To == 0 || id < q.To) && (q.Among == nil || slices.Contains(q.Among, id)) && (q.Accept == nil || q.Accept(id)) {
			hits = append(hits, vectors.Hit{ID: id, Score: float32(cosine(v, q.Vector))})
		}
	}
	slices.SortFunc(hits, func(a, b vectors.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID)) })
	return hits[:min(q.Limit, len(hits))]
}

// recall returns how many of the wanted hits were found.
func recall(got, want []vectors.Hit) (found int) {
	for _, w := range want {
		if slices.ContainsFunc(got, func(g vectors.Hit) bool { return g.ID == w.ID }) {
			found++
		}
	}
	return found
}

func apply(t testing.TB, s store.Store, stage func(b *store.Batch)) {
	t.Helper()
	var b store.Batch
	stage(&b)
	if _, err := s.Apply(&b); err != nil {
		t.Fatal(err)
	}
}

// An index under random changes finds what a loop over all vectors finds, through filters of every kind.
func TestSearchFindsWhatALoopFinds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := storetest.NewMemory()
	cache := vectors.NewCache(1<<30, time.Hour)
	x := vectors.NewIndex(s, []byte("vx"), 256, cache)
	apply(t, s, func(b *store.Batch) { b.Set([]byte("vw"), nil); b.Set([]byte("vy"), nil) }) // neighbours
	all := make(map[uint64][]float32)
	news := clustered(random, 9000, 256)
	next, floor := uint64(1), uint64(0)
	wanted, found := 0, 0
	for len(news) > 0 {
		n := min(len(news), 1+random.IntN(1500))
		for at := 0; at < n; at += 100 {
			apply(t, s, func(b *store.Batch) {
				for i := at; i < min(n, at+100); i++ {
					id := next + uint64(i)
					if err := x.Add(b, id, news[i]); err != nil {
						t.Fatal(err)
					}
					all[id] = news[i]
				}
			})
			if random.IntN(8) == 0 {
				if err := x.Pack(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		news, next = news[n:], next+uint64(n)
		apply(t, s, func(b *store.Batch) {
			for id := range all {
				if random.IntN(12) == 0 {
					x.Delete(b, id)
					delete(all, id)
				}
			}
		})
		if random.IntN(3) == 0 {
			floor += uint64(random.IntN(300))
			apply(t, s, func(b *store.Batch) { x.DeleteBelow(b, floor) })
			for id := range all {
				if id < floor {
					delete(all, id)
				}
			}
		}
		if err := x.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		half := make([]uint64, 0, 100)
		for id := next; id > 0 && len(half) < cap(half); id -= min(id, 1+uint64(random.IntN(30))) {
			half = append(half, id)
		}
		slices.Reverse(half)
		for name, q := range map[string]vectors.Query{
			"all":            {},
			"a range":        {From: next / 3, To: next / 2},
			"a narrow range": {From: next - 5},
			"a list":         {Among: half},
			"an empty list":  {Among: []uint64{}},
			"a filter":       {Accept: func(id uint64) bool { return id%3 == 0 }},
			"a narrow one":   {Accept: func(id uint64) bool { return id%500 == 7 }},
			"all of it":      {From: next / 3, Among: half, Accept: func(id uint64) bool { return id%2 == 0 }},
		} {
			q.Vector, q.Limit = noise(random, 256), 10
			if v := all[next-1]; v != nil {
				q.Vector = v
			}
			got, err := x.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			want := plain(all, q)
			if len(got) != len(want) {
				t.Fatalf("%s: %d hits, want %d", name, len(got), len(want))
			}
			for _, h := range got {
				v := all[h.ID]
				if v == nil || math.Abs(float64(h.Score)-cosine(v, q.Vector)) > 0.01 {
					t.Fatalf("%s: hit %d has score %v, want %v", name, h.ID, h.Score, cosine(v, q.Vector))
				}
			}
			wanted += len(want)
			found += recall(got, want)
		}
	}
	if r := float64(found) / float64(wanted); r < 0.95 {
		t.Errorf("recall %.3f of %d hits", r, wanted)
	}
	if n, err := x.Count(); err != nil || n < len(all) || n > len(all)+2048+500 {
		t.Errorf("Count: %d, %v; there are %d", n, err, len(all))
	}
	apply(t, s, x.Drop)
	for e, err := range s.Scan(store.Range{}) {
		if err != nil || string(e.Key) != "vw" && string(e.Key) != "vy" {
			t.Errorf("after Drop: %q, %v", e.Key, err)
		}
	}
}

func TestVectorsThatCantBeKept(t *testing.T) {
	s := storetest.NewMemory()
	x := vectors.NewIndex(s, []byte("v"), 3, vectors.NewCache(1<<20, time.Hour))
	for name, c := range map[string]struct {
		vector []float32
		fails  bool
	}{
		"nothing":        {nil, true},
		"too short":      {[]float32{1, 2}, true},
		"too long":       {[]float32{1, 2, 3, 4}, true},
		"not a number":   {[]float32{1, float32(math.NaN()), 3}, true},
		"infinite":       {[]float32{1, 2, float32(math.Inf(-1))}, true},
		"no direction":   {[]float32{0, 0, 0}, false},
		"a large number": {[]float32{math.MaxFloat32, 1, 1}, false},
		"a small number": {[]float32{math.SmallestNonzeroFloat32, 0, 0}, false},
	} {
		var b store.Batch
		if err := x.Add(&b, 1, c.vector); (err != nil) != c.fails || c.fails && !b.Empty() {
			t.Errorf("%s: %v, %d changes", name, err, len(b.Ops))
		}
		if hits, err := x.Search(t.Context(), vectors.Query{Vector: c.vector, Limit: 1}); len(hits) != 0 || (err == nil) != (len(c.vector) == 3) {
			t.Errorf("a search for %s: %v, %v", name, hits, err)
		}
	}
}

// What a search loads is held while searches come, within the limit, and dropped afterwards.
func TestMemoryOfSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		s := storetest.NewMemory()
		size := 1000 * (256/8 + 8)
		cache := vectors.NewCache(2*size, 5*time.Minute)
		search := func(x *vectors.Index) {
			t.Helper()
			if hits, err := x.Search(t.Context(), vectors.Query{Vector: noise(random, 256), Limit: 3}); err != nil || len(hits) != 3 {
				t.Fatalf("%v, %v", hits, err)
			}
		}
		var all []*vectors.Index
		for _, name := range []string{"va", "vb", "vc"} {
			x := vectors.NewIndex(s, []byte(name), 256, cache)
			all = append(all, x)
			apply(t, s, func(b *store.Batch) {
				for id := range uint64(1000) {
					if err := x.Add(b, id+1, noise(random, 256)); err != nil {
						t.Fatal(err)
					}
				}
			})
			if err := x.Pack(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := cache.Bytes(); n != 0 {
			t.Errorf("before the first search %d bytes are held", n)
		}
		search(all[0])
		if n := cache.Bytes(); n != size {
			t.Errorf("%d bytes of one index, want %d", n, size)
		}
		search(all[1])
		search(all[2])
		if n := cache.Bytes(); n != 2*size {
			t.Errorf("%d bytes of three indexes, want those of two", n)
		}
		time.Sleep(3 * time.Minute)
		search(all[2])
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := cache.Bytes(); n != size {
			t.Errorf("6 minutes later %d bytes, want those of the one that was searched", n)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := cache.Bytes(); n != 0 {
			t.Errorf("5 minutes after the last search %d bytes are held", n)
		}
	})
}
