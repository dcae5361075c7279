// Package embed turns texts into vectors: texts that mean alike get vectors that point the same way.
package embed

import (
	"context"
	"hash/fnv"
	"math"
)

// A Model turns texts into vectors of unit length, whose dot product says how near two texts are in
// meaning: 1 for the same text, about 0 for texts that have nothing to do with each other. A text
// without words gets a vector of zeros. A Model can be used by several goroutines at once.
type Model interface {
	// ID changes whenever the vectors would: vectors of two models must not be compared.
	ID() string
	Dimensions() int
	// Embed returns one vector for each text, in their order. The vectors belong to the caller.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// English returns the model for English that is inside Kernos. It is loaded when it is first used.
func English() Model { return english{} }

type english struct{}

const dimensions = 256

func (english) ID() string      { return "english-0" }
func (english) Dimensions() int { return dimensions }

func (english) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = make([]float32, dimensions)
		for w := range words(text) {
			h := fnv.New32a()
			h.Write([]byte(w))
			vectors[i][h.Sum32()%dimensions]++
		}
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
