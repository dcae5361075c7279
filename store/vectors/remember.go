package vectors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"kernos/internal/embed"
	"kernos/store"
)

// Remember returns a model that keeps the vectors of another one in a store, by the hash of their texts, so that the same
// text isn't embedded twice: for a model that costs time or money. It keeps between most and twice as many, the last ones. Vectors
// that are kept have unit length.
func Remember(m embed.Model, s store.Store, prefix []byte, most int) embed.Model {
	return &remembered{Model: m, s: s, prefix: prefix, most: most}
}

type remembered struct {
	embed.Model
	s      store.Store
	prefix []byte
	most   int

	mu    sync.Mutex
	begun bool
	half  byte // the half that is written to, 'a' or 'b'; the other half is older
	count int  // vectors in half
}

func (r *remembered) key(half byte, hash []byte) []byte {
	return append(append(append(make([]byte, 0, len(r.prefix)+1+len(hash)), r.prefix...), half), hash...)
}

// Embed implements embed.Model. Where the store fails, the model is asked.
func (r *remembered) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var missing []string
	asked := make(map[string]int) // index of each text in missing
	for i, text := range texts {
		if _, twice := asked[text]; twice {
			continue
		}
		if vectors[i] = r.find(text); vectors[i] == nil {
			asked[text], missing = len(missing), append(missing, text)
		}
	}
	if len(missing) == 0 {
		return vectors, nil
	}
	made, err := r.Model.Embed(ctx, missing)
	if err != nil || len(made) != len(missing) {
		return made, err
	}
	for i, text := range texts {
		if vectors[i] == nil {
			vectors[i] = slices.Clone(made[asked[text]]) // each belongs to the caller
		}
	}
	r.keep(missing, made)
	return vectors, nil
}

func (r *remembered) hash(text string) []byte {
	sum := sha256.Sum256([]byte(r.ID() + "\x00" + text))
	return sum[:16]
}

// find returns the vector of a text, or nil.
func (r *remembered) find(text string) []float32 {
	for _, half := range []byte{'a', 'b'} {
		e, err := r.s.Get(r.key(half, r.hash(text)))
		if err != nil || e.Revision == 0 || len(e.Value) <= 4 {
			continue
		}
		scale := math.Float32frombits(binary.LittleEndian.Uint32(e.Value))
		v := make([]float32, len(e.Value)-4)
		for i, b := range e.Value[4:] {
			v[i] = scale * float32(int8(b))
		}
		return v
	}
	return nil
}

// keep keeps vectors. When one half is full, the older one is dropped, and is written to next.
func (r *remembered) keep(texts []string, vectors [][]float32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun && !r.begin() {
		return
	}
	var b store.Batch
	if r.count >= r.most {
		r.half, r.count = 'a'+'b'-r.half, 0
		b.DeleteRange(r.key(r.half, nil), r.key(r.half+1, nil))
		b.Set(r.key('@', nil), []byte{r.half})
	}
	for i, text := range texts {
		if row, err := encodeRow(vectors[i]); err == nil && row != nil {
			b.Set(r.key(r.half, r.hash(text)), row)
			r.count++
		}
	}
	if _, err := r.s.Apply(&b); err != nil {
		r.begun = false // the stored vectors are counted again
	}
}

// begin finds out which half is written to, and how full it is.
func (r *remembered) begin() bool {
	e, err := r.s.Get(r.key('@', nil))
	if err != nil {
		return false
	}
	r.half, r.count = 'a', 0
	if len(e.Value) == 1 && e.Value[0] == 'b' {
		r.half = 'b'
	}
	for _, err := range r.s.Scan(store.Prefix(r.key(r.half, nil))) {
		if err != nil {
			return false
		}
		r.count++
	}
	r.begun = true
	return true
}
