// Package embed turns texts into vectors: texts that mean alike get vectors that point the same way.
package embed

import (
	"context"
	_ "embed"
	"sync"
)

// A Model turns texts into vectors of unit length, whose dot product is how near two texts are in
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

const dimensions = 192

//go:embed english/english.table
var file string

var englishTable = sync.OnceValue(func() *table {
	t, err := readTable(file)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return t
})

func (english) ID() string      { return "english-2" }
func (english) Dimensions() int { return dimensions }

func (english) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return englishTable().embed(ctx, texts)
}
