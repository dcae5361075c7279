// Package llama runs small language models of the Llama architecture in plain Go, from GGUF
// files with Q8_0 matrices. It is made for models of a few million parameters.
//
// The arithmetic is that of llama.cpp: vectors are quantized to 8 bits before they meet the
// weights. So both give the same tokens for the same file.
package llama

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Model is the weights and the vocabulary of a model. It can be used by many states at once.
type Model struct {
	tokens *tokenizer
	length int // length of the context, in tokens
	width  int
	heads  int
	hidden int
	norm   []float32
	embed  matrix // the output too: the two are tied
	layers []layer
	sines  []float32 // cosine and sine for each position and pair of a head
	least  float32   // added to the mean square before a norm divides by its root
}

type layer struct {
	attentionNorm, feedNorm []float32
	query, key, value, out  matrix
	gate, up, down          matrix
}

// Open reads a model. The file's bytes aren't kept.
func Open(data []byte) (*Model, error) {
	f, err := parse(data)
	if err != nil {
		return nil, err
	}
	if f.settings["general.architecture"] != "llama" {
		return nil, fmt.Errorf("the architecture %v isn't known; llama is", f.settings["general.architecture"])
	}
	m := &Model{}
	var layers, keyHeads int
	var base float32
	number := func(to *int, name string) {
		if err == nil {
			*to, err = f.number("llama." + name)
		}
	}
	number(&m.length, "context_length")
	number(&m.width, "embedding_length")
	number(&m.heads, "attention.head_count")
	number(&keyHeads, "attention.head_count_kv")
	number(&m.hidden, "feed_forward_length")
	number(&layers, "block_count")
	if err == nil {
		base, err = f.float("llama.rope.freq_base")
	}
	if err == nil {
		m.least, err = f.float("llama.attention.layer_norm_rms_epsilon")
	}
	if err != nil {
		return nil, err
	}
	if err := m.check(layers, keyHeads); err != nil {
		return nil, err
	}
	if m.tokens, err = newTokenizer(f); err != nil {
		return nil, err
	}
	vectorOf := func(name string) (v []float32) {
		if err == nil {
			v, err = f.vector(name, m.width)
		}
		return v
	}
	matrixOf := func(name string, columns, rows int) (x matrix) {
		if err == nil {
			x, err = f.matrix(name, columns, rows)
		}
		return x
	}
	m.embed = matrixOf("token_embd", m.width, len(m.tokens.texts))
	m.norm = vectorOf("output_norm")
	for i := range layers {
		blk := fmt.Sprintf("blk.%d.", i)
		m.layers = append(m.layers, layer{
			attentionNorm: vectorOf(blk + "attn_norm"),
			feedNorm:      vectorOf(blk + "ffn_norm"),
			query:         matrixOf(blk+"attn_q", m.width, m.width),
			key:           matrixOf(blk+"attn_k", m.width, m.width),
			value:         matrixOf(blk+"attn_v", m.width, m.width),
			out:           matrixOf(blk+"attn_output", m.width, m.width),
			gate:          matrixOf(blk+"ffn_gate", m.width, m.hidden),
			up:            matrixOf(blk+"ffn_up", m.width, m.hidden),
			down:          matrixOf(blk+"ffn_down", m.hidden, m.width),
		})
	}
	if err != nil {
		return nil, err
	}
	m.turn(float64(base))
	return m, nil
}

// check refuses sizes that don't fit together, or that are beyond what this package is for.
func (m *Model) check(layers, keyHeads int) error {
	const most = 1 << 16
	for _, n := range []int{m.length, m.width, m.heads, m.hidden, layers} {
		if n < 1 || n > most {
			return fmt.Errorf("a size of the model is %d; 1 to %d can be run", n, most)
		}
	}
	if m.width%m.heads != 0 || m.width/m.heads%2 != 0 || keyHeads != m.heads {
		return fmt.Errorf("a width of %d with %d heads and %d heads of keys can't be run", m.width, m.heads, keyHeads)
	}
	return nil
}

// turn computes the angles of the rotary positions.
func (m *Model) turn(base float64) {
	half := m.width / m.heads / 2
	m.sines = make([]float32, 0, 2*half*m.length)
	for position := range m.length {
		for i := range half {
			sine, cosine := math.Sincos(float64(position) * math.Pow(base, -float64(i)/float64(half)))
			m.sines = append(m.sines, float32(cosine), float32(sine))
		}
	}
}

func (f *file) vector(name string, n int) ([]float32, error) {
	t, ok := f.tensors[name+".weight"]
	if !ok || t.kind != kindF32 || t.columns != n || t.rows != 1 {
		return nil, fmt.Errorf("the tensor %s.weight is missing, or isn't %d numbers of F32", name, n)
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
	}
	return v, nil
}

func (f *file) matrix(name string, columns, rows int) (matrix, error) {
	t, ok := f.tensors[name+".weight"]
	if !ok || t.kind != kindQ8 || t.columns != columns || t.rows != rows {
		return matrix{}, fmt.Errorf("the tensor %s.weight is missing, or isn't %d × %d weights of Q8_0", name, columns, rows)
	}
	return newMatrix(t), nil
}

// Length returns how many tokens a context may have.
func (m *Model) Length() int { return m.length }

// Tokens returns the tokens of a text. No text becomes a control token.
func (m *Model) Tokens(text string) []Token { return m.tokens.append(nil, text) }

// Control returns a control token such as <|im_end|>.
func (m *Model) Control(name string) (Token, bool) {
	t, ok := m.tokens.control[name]
	return t, ok
}

// Text returns the bytes of a token, which may be a part of a character. A control token has none.
func (m *Model) Text(t Token) string { return m.tokens.texts[t] }

// State is a context of a model: the tokens that it has read, and what it keeps of them. It is
// for one goroutine at a time.
type State struct {
	m            *Model
	read         []Token
	keys, values [][]float32 // by layer: one vector for each position
	scratch      scratch
}

// batch is how many positions are evaluated together, while the weights of a few rows are at hand.
const batch = 16

// scratch is what the evaluation of a batch needs.
type scratch struct {
	narrow, wide              [batch]quantized
	x, normed, q, k, v, mixed [batch][]float32
	gate, up                  [batch][]float32
	weights                   []float32
	logits                    []float32
}

// NewState returns an empty context.
func (m *Model) NewState() *State {
	s := &State{m: m}
	for range m.layers {
		s.keys = append(s.keys, make([]float32, m.length*m.width))
		s.values = append(s.values, make([]float32, m.length*m.width))
	}
	c := &s.scratch
	for l := range batch {
		c.narrow[l], c.wide[l] = newQuantized(m.width), newQuantized(m.hidden)
		for _, v := range []*[batch][]float32{&c.x, &c.normed, &c.q, &c.k, &c.v, &c.mixed} {
			v[l] = make([]float32, m.width)
		}
		c.gate[l], c.up[l] = make([]float32, m.hidden), make([]float32, m.hidden)
	}
	c.weights = make([]float32, m.length)
	c.logits = make([]float32, len(m.tokens.texts))
	return s
}

// errTooLong is the error for more tokens than the context has places.
var errTooLong = errors.New("the text is longer than the model's context")

// Logits returns how likely each token is to come after these. What the state has read already
// and the tokens begin with isn't read again. The result is valid until the next call.
func (s *State) Logits(ctx context.Context, tokens []Token) ([]float32, error) {
	if len(tokens) == 0 {
		return nil, errors.New("a model needs at least one token to go on from")
	}
	if len(tokens) > s.m.length {
		return nil, errTooLong
	}
	same := 0
	for same < len(s.read) && same < len(tokens)-1 && s.read[same] == tokens[same] {
		same++
	}
	s.read = s.read[:same]
	for len(s.read) < len(tokens) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(batch, len(tokens)-len(s.read))
		s.step(tokens[len(s.read):][:n])
		s.read = append(s.read, tokens[len(s.read):][:n]...)
	}
	c := &s.scratch
	last := (len(tokens) - same - 1) % batch
	normalize(c.normed[0], c.x[last], s.m.norm, s.m.least)
	c.narrow[0].load(c.normed[0])
	s.m.embed.times(c.narrow[:1], [][]float32{c.logits})
	return c.logits, nil
}

// step reads up to `batch` tokens; c.x has their vectors afterwards.
//
//go:norace
func (s *State) step(tokens []Token) {
	m, c, n := s.m, &s.scratch, len(tokens)
	first := len(s.read)
	x, normed, q, k, v, mixed := c.x[:n], c.normed[:n], c.q[:n], c.k[:n], c.v[:n], c.mixed[:n]
	gate, up, narrow, wide := c.gate[:n], c.up[:n], c.narrow[:n], c.wide[:n]
	for l, t := range tokens {
		m.embed.row(int(t), x[l])
	}
	for i := range m.layers {
		layer := &m.layers[i]
		for l := range n {
			normalize(normed[l], x[l], layer.attentionNorm, m.least)
			narrow[l].load(normed[l])
		}
		layer.query.times(narrow, q)
		layer.key.times(narrow, k)
		layer.value.times(narrow, v)
		for l := range n {
			m.rotate(q[l], first+l)
			m.rotate(k[l], first+l)
			copy(s.keys[i][(first+l)*m.width:], k[l])
			copy(s.values[i][(first+l)*m.width:], v[l])
		}
		for l := range n {
			s.attend(i, first+l, q[l], mixed[l])
			narrow[l].load(mixed[l])
		}
		layer.out.times(narrow, normed)
		for l := range n {
			add(x[l], normed[l])
			normalize(normed[l], x[l], layer.feedNorm, m.least)
			narrow[l].load(normed[l])
		}
		layer.gate.times(narrow, gate)
		layer.up.times(narrow, up)
		for l := range n {
			for j, g := range gate[l] {
				gate[l][j] = g / (1 + float32(math.Exp(-float64(g)))) * up[l][j]
			}
			wide[l].load(gate[l])
		}
		layer.down.times(wide, normed)
		for l := range n {
			add(x[l], normed[l])
		}
	}
}

// attend mixes the values of all positions up to one, by how well their keys fit the query.
//
//go:norace
func (s *State) attend(layer, position int, query, out []float32) {
	m := s.m
	size := m.width / m.heads
	scale := 1 / float32(math.Sqrt(float64(size)))
	weights := s.scratch.weights[:position+1]
	clear(out)
	for h := range m.heads {
		q := query[h*size:][:size]
		most := float32(math.Inf(-1))
		for p := range weights {
			weights[p] = dot(q, s.keys[layer][p*m.width+h*size:][:size]) * scale
			most = max(most, weights[p])
		}
		total := float32(0)
		for p, w := range weights {
			weights[p] = float32(math.Exp(float64(w - most)))
			total += weights[p]
		}
		mixed := out[h*size:][:size]
		for p, w := range weights {
			w /= total
			for i, v := range s.values[layer][p*m.width+h*size:][:size] {
				mixed[i] += w * v
			}
		}
	}
}

// rotate turns each pair of neighbours in each head by the angle of the position.
//
//go:norace
func (m *Model) rotate(x []float32, position int) {
	size := m.width / m.heads
	angles := m.sines[position*size:][:size]
	for h := 0; h < len(x); h += size {
		for i := 0; i < size; i += 2 {
			a, b := x[h+i], x[h+i+1]
			cosine, sine := angles[i], angles[i+1]
			x[h+i], x[h+i+1] = a*cosine-b*sine, a*sine+b*cosine
		}
	}
}

//go:norace
func normalize(out, x, weights []float32, least float32) {
	sum := float64(0)
	for _, v := range x {
		sum += float64(v * v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+float64(least)))
	for i, v := range x {
		out[i] = v * scale * weights[i]
	}
}

//go:norace
func add(to, x []float32) {
	for i, v := range x {
		to[i] += v
	}
}

//go:norace
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for i := 0; i+3 < len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	sum := s0 + s1 + s2 + s3
	for i := len(a) / 4 * 4; i < len(a); i++ {
		sum += a[i] * b[i]
	}
	return sum
}
