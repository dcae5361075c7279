package embed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// A table has a vector for each of some thousand words, and for pieces that other words are made
// of. The vector of a text is the sum of those of its words, made one unit long; the more common a
// word is, the shorter is its vector.
//
// The file begins with magic, the number of dimensions, that of words, and the length of their list, each four
// bytes, the lowest first. The words follow, each ended by a line break; those that begin with # are pieces that continue a
// word. Then comes the scale of each word as a float32, and the vectors, a byte for each number.
type table struct {
	dimensions int
	words      map[string]int32
	scales     []float32
	vectors    []int8 // by word and dimension
}

const magic = "kernos embeddings 1\n"

// readTable reads a table. It keeps using the data.
func readTable(data string) (*table, error) {
	rest, ok := strings.CutPrefix(data, magic)
	if !ok || len(rest) < 12 {
		return nil, errors.New("this is not a table of embeddings")
	}
	number := func() int {
		n := binary.LittleEndian.Uint32([]byte(rest[:4]))
		rest = rest[4:]
		return int(n)
	}
	dimensions, count, list := number(), number(), number()
	if dimensions == 0 || len(rest) != list+count*4+count*dimensions {
		return nil, fmt.Errorf("a table of %d words and %d dimensions has %d bytes", count, dimensions, len(rest))
	}
	t := &table{dimensions: dimensions, words: make(map[string]int32, count), scales: make([]float32, count)}
	i := int32(0)
	for word := range strings.Lines(rest[:list]) {
		t.words[strings.TrimSuffix(word, "\n")] = i
		i++
	}
	if int(i) != count || len(t.words) != count {
		return nil, fmt.Errorf("the table has %d words, not %d", len(t.words), count)
	}
	rest = rest[list:]
	for i := range t.scales {
		t.scales[i] = math.Float32frombits(uint32(number()))
	}
	t.vectors = unsafe.Slice((*int8)(unsafe.Pointer(unsafe.StringData(rest))), len(rest))
	return t, nil
}

// sum adds the vectors of the words of a text to sum.
func (t *table) sum(text string, sum []float32) {
	var room [16]int32
	for words := (Words{Text: text}); ; {
		word := words.Next()
		if word == nil {
			return
		}
		for _, i := range Entries(t.words, word, room[:0]) {
			scale := t.scales[i]
			for d, v := range t.vectors[int(i)*t.dimensions:][:len(sum)] {
				sum[d] += scale * float32(v)
			}
		}
	}
}

// embed is [Model.Embed].
func (t *table) embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = make([]float32, t.dimensions)
		t.sum(text, vectors[i])
		normalize(vectors[i])
	}
	return vectors, nil
}

// normalize gives v the length 1, unless it is zero.
func normalize(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
}
