// Package encoder runs the sentence encoder that the table of package embed was made from: the
// Universal Sentence Encoder Lite, a transformer of two layers and seven million weights. It finds
// meaning in the order of words too, which a table can't, and takes a thousand times as long.
package encoder

import (
	"context"
	"math"
)

const (
	dimensions = 512
	width      = 256 // width of a token, and of the first layer's attention
	inner      = 1536
	heads      = 4
	longest    = 128 // tokens of a text; the rest is not read
	epsilon    = 1e-6
)

// An Encoder is a Model of package embed.
type Encoder struct {
	tokens  tokenizer
	pieces  []float32 // by token and dimension
	timing  []float32 // by position and dimension
	project linear    // from the width of a token to that of the layers
	layers  [2]layer
	output  linear
}

type layer struct {
	before     layerNorm // the attention
	qkv        linear
	attended   linear
	beforeNext layerNorm // the two linear maps below
	widen      linear
	narrow     linear
}

type layerNorm struct{ scale, bias []float32 }

// A linear map has a row of weights for each of its outputs.
type linear struct {
	in      int
	weights []float32
	bias    []float32
}

// ID implements embed.Model.
func (e *Encoder) ID() string { return "encoder-1" }

// Dimensions implements embed.Model.
func (e *Encoder) Dimensions() int { return dimensions }

// Embed implements embed.Model.
func (e *Encoder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var batch []int // tokens of the texts from first on
	var ends []int
	first := 0
	for i, text := range texts {
		batch = append(batch, e.Tokens(text)...)
		ends = append(ends, len(batch))
		if len(batch) < longest && i < len(texts)-1 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e.encode(batch, ends, vectors[first:])
		batch, ends, first = batch[:0], ends[:0], i+1
	}
	return vectors, nil
}

// Tokens returns what the encoder reads of a text.
func (e *Encoder) Tokens(text string) []int {
	tokens := e.tokens.split(text)
	return tokens[:min(len(tokens), longest)]
}

// encode makes the vectors of several texts, whose tokens follow each other. Together they take
// less time than one after the other, because the weights come from memory only once.
func (e *Encoder) encode(tokens, ends []int, vectors [][]float32) {
	x := make([]float32, len(tokens)*width)
	start := 0
	for _, end := range ends {
		for t := start; t < end; t++ {
			timing := e.timing[(t-start)*width:][:width]
			for i, v := range e.pieces[tokens[t]*width:][:width] {
				x[t*width+i] = 2*v + timing[i]
			}
		}
		start = end
	}
	residual := e.project.apply(x)
	for l := range e.layers {
		layer := &e.layers[l]
		qkv := layer.qkv.apply(layer.before.apply(x))
		row := len(layer.qkv.bias)
		mixed := make([]float32, len(tokens)*row/3)
		start = 0
		for _, end := range ends {
			attend(qkv[start*row:end*row], mixed[start*row/3:end*row/3], end-start)
			start = end
		}
		add(residual, layer.attended.apply(mixed))
		hidden := layer.widen.apply(layer.beforeNext.apply(residual))
		for i, v := range hidden {
			hidden[i] = max(v, 0)
		}
		add(residual, layer.narrow.apply(hidden))
		x = residual
	}
	start = 0
	for i, end := range ends {
		vectors[i] = e.summarize(residual[start*dimensions : end*dimensions])
		start = end
	}
}

// summarize returns the vector of a text whose tokens have these rows.
func (e *Encoder) summarize(rows []float32) []float32 {
	out := make([]float32, dimensions)
	if len(rows) == 0 {
		return out
	}
	mean := make([]float32, dimensions)
	for at := 0; at < len(rows); at += dimensions {
		add(mean, rows[at:][:dimensions])
	}
	for i := range mean {
		mean[i] /= float32(len(rows) / dimensions)
	}
	var square float64
	for i, v := range e.output.apply(mean) {
		out[i] = float32(math.Tanh(float64(v)))
		square += float64(out[i]) * float64(out[i])
	}
	length := float32(1 / math.Sqrt(max(square, 1e-12)))
	for i := range out {
		out[i] *= length
	}
	return out
}

// attend mixes the values of n tokens into out. qkv has a query, a key and a value for each, side by side.
//
//go:norace
func attend(qkv, out []float32, n int) {
	if n == 0 {
		return
	}
	row := len(qkv) / n
	size := row / 3
	head := size / heads
	scale := float32(1 / math.Sqrt(float64(head)))
	weights := make([]float64, n)
	for h := range heads {
		for t := range n {
			query := qkv[t*row+h*head:][:head]
			highest := math.Inf(-1)
			for s := range n {
				var sum float32
				for i, k := range qkv[s*row+size+h*head:][:head] {
					sum += query[i] * scale * k
				}
				weights[s] = float64(sum)
				highest = max(highest, weights[s])
			}
			var total float64
			for s := range weights {
				weights[s] = math.Exp(weights[s] - highest)
				total += weights[s]
			}
			mixed := out[t*size+h*head:][:head]
			for s := range n {
				w := float32(weights[s] / total)
				for i, v := range qkv[s*row+2*size+h*head:][:head] {
					mixed[i] += w * v
				}
			}
		}
	}
}

// apply returns the rows of x with their mean and deviation taken away.
//
//go:norace
func (n layerNorm) apply(x []float32) []float32 {
	size := len(n.scale)
	out := make([]float32, len(x))
	for at := 0; at < len(x); at += size {
		var mean, variance float64
		for _, v := range x[at:][:size] {
			mean += float64(v)
		}
		mean /= float64(size)
		for _, v := range x[at:][:size] {
			variance += (float64(v) - mean) * (float64(v) - mean)
		}
		scale := 1 / math.Sqrt(variance/float64(size)+epsilon)
		for i, v := range x[at:][:size] {
			out[at+i] = float32((float64(v)-mean)*scale)*n.scale[i] + n.bias[i]
		}
	}
	return out
}

// apply maps the rows of x. Four rows at once need each weight only once.
//
//go:norace
func (l linear) apply(x []float32) []float32 {
	n, outs := len(x)/l.in, len(l.bias)
	out := make([]float32, n*outs)
	row := func(t int) []float32 { return x[min(t, n-1)*l.in:][:l.in] }
	for o, bias := range l.bias {
		weights := l.weights[o*l.in:][:l.in]
		for t := 0; t < n; t += 4 {
			sums := dots(weights, row(t), row(t+1), row(t+2), row(t+3))
			for i := range min(4, n-t) {
				out[(t+i)*outs+o] = sums[i] + bias
			}
		}
	}
	return out
}

// dots returns the products of w and four vectors of its length. The race detector would make it
// ten times slower, and there is nothing to race: weights don't change.
//
//go:norace
func dots(w, a, b, c, d []float32) (sums [4]float32) {
	a, b, c, d = a[:len(w)], b[:len(w)], c[:len(w)], d[:len(w)]
	var s0, s1, s2, s3 float32
	for i, v := range w {
		s0 += v * a[i]
		s1 += v * b[i]
		s2 += v * c[i]
		s3 += v * d[i]
	}
	return [4]float32{s0, s1, s2, s3}
}

func add(to, x []float32) {
	for i, v := range x {
		to[i] += v
	}
}
