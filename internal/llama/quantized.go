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

// lanes is how many positions one multiplication serves. The sum of a block is below 2^20 in
// either direction (32 × 127 × 128), so three sums, each 21 bits wide, fit into 64 bits.
const (
	lanes    = 3
	laneBits = 21
)

// matrix is a Q8_0 tensor, apart in weights and scales.
type matrix struct {
	columns, rows int
	weights       []int8
	scales        []float32 // one per block
}

func newMatrix(t tensor) matrix {
	m := matrix{columns: t.columns, rows: t.rows, weights: make([]int8, t.columns*t.rows), scales: make([]float32, t.columns*t.rows/blockSize)}
	for b := range m.scales {
		block := t.data[b*blockBytes:][:blockBytes]
		m.scales[b] = float16(binary.LittleEndian.Uint16(block))
		for i, w := range block[2:] {
			m.weights[b*blockSize+i] = int8(w)
		}
	}
	return m
}

// row writes the weights of a row as numbers.
func (m *matrix) row(n int, out []float32) {
	for b := range m.columns / blockSize {
		at := n*m.columns + b*blockSize
		scale := m.scales[at/blockSize]
		for i, w := range m.weights[at : at+blockSize] {
			out[b*blockSize+i] = scale * float32(w)
		}
	}
}

// packed holds vectors of up to `lanes` positions, quantized to 8 bits as the weights are,
// with the positions side by side in one integer.
type packed struct {
	values []int64
	scales [lanes][]float32
}

func newPacked(columns int) *packed {
	p := &packed{values: make([]int64, columns)}
	for l := range p.scales {
		p.scales[l] = make([]float32, columns/blockSize)
	}
	return p
}

// load quantizes vectors, at most one per lane.
//
//go:norace
func (p *packed) load(vectors [][]float32) {
	columns := len(vectors[0])
	clear(p.values[:columns])
	for l, x := range vectors {
		for b := range columns / blockSize {
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
			p.scales[l][b] = float16(toFloat16(scale))
			for i, v := range block {
				p.values[b*blockSize+i] += int64(math.Round(float64(v*inverse))) << (l * laneBits)
			}
		}
	}
}

// times multiplies the matrix with the vectors that p holds; outs has a vector for each. The race
// detector, which would slow it tenfold, leaves out the arithmetic: a state is for one goroutine.
//
//go:norace
func (m *matrix) times(p *packed, outs [][]float32) {
	blocks := m.columns / blockSize
	for r := range m.rows {
		var sums [lanes]float32
		weights := m.weights[r*m.columns:][:m.columns]
		scales := m.scales[r*blocks:][:blocks]
		for b, scale := range scales {
			w := (*[blockSize]int8)(weights[b*blockSize:])
			x := (*[blockSize]int64)(p.values[b*blockSize:])
			var even, odd int64
			for i := 0; i < blockSize; i += 2 {
				even += int64(w[i]) * x[i]
				odd += int64(w[i+1]) * x[i+1]
			}
			sum := even + odd
			for l := range outs {
				// The lowest lane, with its sign; subtracting it leaves the others exact.
				lane := sum << (64 - laneBits) >> (64 - laneBits)
				sums[l] += float32(lane) * scale * p.scales[l][b]
				sum = (sum - lane) >> laneBits
			}
		}
		for l, out := range outs {
			out[r] = sums[l]
		}
	}
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
