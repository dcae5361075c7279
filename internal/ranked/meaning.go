package ranked

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"kernos/internal/embed"
)

// MinNear is how near a text must be to a query to be found by its meaning: below that, most have
// nothing to do with it.
const MinNear = 0.2

// A Meaning compares texts by what they mean. It keeps the vectors of texts that were compared
// lately, by their hash, so that a text is embedded once. It is safe for concurrent use.
type Meaning struct {
	model embed.Model

	mu    sync.Mutex
	kept  map[[16]byte]vector
	timer *time.Timer
}

// A vector has the direction of a text's meaning, each number in a byte.
type vector []int8

const (
	// maxKept is how many bytes of vectors are kept, and keptFor how long after they were last
	// used. A kernel that isn't asked by meaning keeps none.
	maxKept = 48 << 20
	keptFor = 5 * time.Minute

	// longest is how long a search waits for vectors. The next search continues the work.
	longest = 2 * time.Second

	// atOnce is how many texts are given to the model at once.
	atOnce = 256
)

// NewMeaning returns a Meaning that goes by a model. Nil means [embed.English].
func NewMeaning(m embed.Model) *Meaning {
	if m == nil {
		m = embed.English()
	}
	return &Meaning{model: m}
}

// vectors returns the vectors of texts. A text without meaning has nil, and so have those that are left when
// a search has waited long enough.
func (m *Meaning) vectors(ctx context.Context, texts []string) (out []vector, left int, err error) {
	out = make([]vector, len(texts))
	hashes := make([][16]byte, len(texts))
	var missing []int
	id := m.model.ID()
	var buf []byte
	m.mu.Lock()
	for i, text := range texts {
		buf = append(append(append(buf[:0], id...), 0), text...)
		sum := sha256.Sum256(buf)
		hashes[i] = [16]byte(sum[:16])
		v, ok := m.kept[hashes[i]]
		if out[i] = v; !ok {
			missing = append(missing, i)
		}
	}
	m.mu.Unlock()
	for start := time.Now(); len(missing) > 0; {
		if time.Since(start) > longest {
			return out, len(missing), nil
		}
		some := missing[:min(len(missing), atOnce)]
		missing = missing[len(some):]
		asked := make([]string, len(some))
		for i, n := range some {
			asked[i] = texts[n]
		}
		got, err := m.model.Embed(ctx, asked)
		if err == nil && len(got) != len(asked) {
			err = fmt.Errorf("the model %s returned %d vectors for %d texts", id, len(got), len(asked))
		}
		if err != nil {
			return nil, 0, err
		}
		m.mu.Lock()
		for i, n := range some {
			out[n] = quantize(got[i])
			m.keep(hashes[n], out[n])
		}
		m.mu.Unlock()
	}
	return out, 0, nil
}

// keep keeps a vector. The caller has mu.
func (m *Meaning) keep(hash [16]byte, v vector) {
	const overhead = 64 // bytes of an entry of the map
	if m.kept == nil || (len(m.kept)+1)*(m.model.Dimensions()+overhead) > maxKept {
		m.kept = make(map[[16]byte]vector)
	}
	m.kept[hash] = v
	if m.timer == nil {
		m.timer = time.AfterFunc(keptFor, m.forget)
	}
	m.timer.Reset(keptFor)
}

func (m *Meaning) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = nil
}

func quantize(v []float32) vector {
	most := float32(0)
	for _, x := range v {
		most = max(most, x, -x)
	}
	if most == 0 {
		return nil
	}
	q := make(vector, len(v))
	for i, x := range v {
		q[i] = int8(math.Round(float64(x / most * 127)))
	}
	return q
}

// cosine returns the cosine of two vectors.
func cosine(a, b vector) float64 {
	if len(a) != len(b) || len(a) == 0 {
		return 0
	}
	var dot, aa, bb int32
	for i, x := range a {
		y := int32(b[i])
		dot += int32(x) * y
		aa += int32(x) * int32(x)
		bb += y * y
	}
	return Rounded(float64(dot) / math.Sqrt(float64(aa)*float64(bb)))
}

// About returns the part of a query that a model knows something about: ids and numbers are left
// out. It is "" if there is nothing else.
func About(query string) string {
	return strings.TrimSpace(string(appendWords(nil, []byte(query), len(query)+1)))
}

// WordsOnly returns the note for a caller whose search went by words because of an error, "" if there was none. The text
// of the error is for the operator.
func WordsOnly(err error) string {
	if err == nil {
		return ""
	}
	return "the model that embeds texts isn't available; kernos doctor says why"
}
