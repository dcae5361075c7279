package llama

import (
	"encoding/binary"
	"math"
)

// A Q8_0 block is a scale as float16 and 32 weights of 8 bits.
const (
	blockSize  = 32
	blockBytes = 2 + blockSize
)

// lanes is how many rows of a matrix one multiplication serves. The sum of a block is below 2^20 in
// either direction (32 × 127 × 128), so three sums, each 21 bits wide, fit into 64 bits.
const (
	lanes    = 3
	laneBits = 21
)

// matrix is a Q8_0 tensor. Its rows are in groups of `lanes`, whose weights stand side by side in one
// integer; rows that the last group lacks are zero.
type matrix struct {
	columns, rows int
	weights       []int64          // by group and column
	scales        [][lanes]float32 // by group and block
}

//go:norace
func newMatrix(t tensor) matrix {
	groups, blocks := (t.rows+lanes-1)/lanes, t.columns/blockSize
	m := matrix{columns: t.columns, rows: t.rows, weights: make([]int64, groups*t.columns), scales: make([][lanes]float32, groups*blocks)}
	for r := range t.rows {
		group, lane := r/lanes, r%lanes
		for b := range blocks {
			block := t.data[(r*blocks+b)*blockBytes:][:blockBytes]
			m.scales[group*blocks+b][lane] = float16(binary.LittleEndian.Uint16(block))
			for i, w := range block[2:] {
				m.weights[group*m.columns+b*blockSize+i] += int64(int8(w)) << (lane * laneBits)
			}
		}
	}
	return m
}

// apart returns the lowest of the numbers that stand side by side, with its sign, and the others.
func apart(sum int64) (lowest, others int64) {
	lowest = sum << (64 - laneBits) >> (64 - laneBits)
	return lowest, (sum - lowest) >> laneBits
}

// row writes the weights of a row as numbers.
//
//go:norace
func (m *matrix) row(n int, out []float32) {
	group, lane := n/lanes, n%lanes
	for i := range out {
		w, others := apart(m.weights[group*m.columns+i])
		for range lane {
			w, others = apart(others)
		}
		out[i] = m.scales[(group*m.columns+i)/blockSize][lane] * float32(w)
	}
}

// quantized is a vector of 8 bits per number, as the weights are.
type quantized struct {
	values []int64
	scales []float32 // one per block
}

func newQuantized(columns int) quantized {
	return quantized{make([]int64, columns), make([]float32, columns/blockSize)}
}

// load quantizes a vector.
//
//go:norace
func (q *quantized) load(x []float32) {
	for b := range q.scales {
		block := x[b*blockSize:][:blockSize]
		most := float32(0)
		for _, v := range block {
			most = max(most, float32(math.Abs(float64(v))))
		}
		scale := most / 127
		inverse := float32(0)
		if scale != 0 {
			inverse = 1 / scale
		}
		q.scales[b] = float16(toFloat16(scale))
		for i, v := range block {
			q.values[b*blockSize+i] = int64(math.Round(float64(v * inverse)))
		}
	}
}

// times multiplies the matrix with vectors; outs has one for each. The race detector, which would slow it
// tenfold, leaves out the arithmetic: a state is for one goroutine.
//
//go:norace
func (m *matrix) times(xs []quantized, outs [][]float32) {
	blocks := m.columns / blockSize
	for group := range len(m.scales) / blocks {
		weights := m.weights[group*m.columns:][:m.columns]
		scales := m.scales[group*blocks:][:blocks]
		for p := range xs {
			var sums [lanes]float32
			for b := range scales {
				w := (*[blockSize]int64)(weights[b*blockSize:])
				x := (*[blockSize]int64)(xs[p].values[b*blockSize:])
				first, others := apart(product(w, x))
				second, third := apart(others)
				sums[0] += float32(first) * scales[b][0] * xs[p].scales[b]
				sums[1] += float32(second) * scales[b][1] * xs[p].scales[b]
				sums[2] += float32(third) * scales[b][2] * xs[p].scales[b]
			}
			copy(outs[p][group*lanes:m.rows], sums[:])
		}
	}
}

// product is apart from times, where the compiler would run out of registers: twice as slow.
//
//go:norace
//go:noinline
func product(w, x *[blockSize]int64) int64 {
	var a, b int64
	for i := 0; i < blockSize; i += 4 {
		a += w[i]*x[i] + w[i+1]*x[i+1]
		b += w[i+2]*x[i+2] + w[i+3]*x[i+3]
	}
	return a + b
}

// float16 returns the number that the bits of an IEEE half stand for.
func float16(bits uint16) float32 {
	sign, exponent, fraction := uint32(bits>>15)<<31, uint32(bits>>10)&31, uint32(bits)&1023
	switch exponent {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)/(1<<24)))
	case 31:
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// toFloat16 returns the bits of the IEEE half nearest to a number that isn't negative.
func toFloat16(x float32) uint16 {
	if x >= 65520 {
		return 31 << 10
	}
	if x < 1.0/(1<<14) {
		return uint16(math.RoundToEven(float64(x) * (1 << 24)))
	}
	bits := math.Float32bits(x)
	bits += 0xFFF + bits>>13&1
	return uint16(bits>>13 - 112<<10)
}
