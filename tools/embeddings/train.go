package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// A text is what the table is taught: the entries of its parts.
type text []int32

// A lesson says what the vector of a text should be: that of the encoder.
type lesson struct {
	text   text
	vector []float32
}

// A pair is two texts that mean the same.
type pair [2]text

// A trainer moves the vectors of words until their sums are as they should be.
type trainer struct {
	dimensions int
	vectors    [][]float32 // by word
	squares    [][]float32 // of the gradients so far, as in Adagrad
	rate       float32
}

const (
	batch       = 128
	temperature = 0.06
)

func (t *trainer) sum(x text) ([]float32, float32) {
	s := make([]float32, t.dimensions)
	for _, w := range x {
		addScaled(s, 1, t.vectors[w])
	}
	length := float32(math.Sqrt(float64(dot(s, s)))) + 1e-9
	for i := range s {
		s[i] /= length
	}
	return s, length
}

// descend moves the words of x along a gradient that is known for the vector of the text.
func (t *trainer) descend(x text, unit []float32, length float32, gradient []float32) {
	along := dot(gradient, unit)
	for i := range gradient {
		gradient[i] = (gradient[i] - along*unit[i]) / length
	}
	for _, w := range x {
		v, q := t.vectors[w], t.squares[w]
		for i, g := range gradient {
			q[i] += g * g
			v[i] -= t.rate * g / (float32(math.Sqrt(float64(q[i]))) + 1e-5)
		}
	}
}

// learn moves the vector of each text towards that of the encoder.
func (t *trainer) learn(lessons []lesson, weight float32) (loss float64) {
	for _, l := range lessons {
		unit, length := t.sum(l.text)
		loss += float64(1 - dot(unit, l.vector))
		gradient := make([]float32, t.dimensions)
		for i, v := range l.vector {
			gradient[i] = -weight * v
		}
		t.descend(l.text, unit, length, gradient)
	}
	return loss / float64(len(lessons))
}

// pull moves the two texts of each pair towards each other and away from those of other pairs.
func (t *trainer) pull(pairs []pair, weight float32) (loss float64) {
	n := len(pairs)
	units, lengths := [2][][]float32{make([][]float32, n), make([][]float32, n)}, [2][]float32{make([]float32, n), make([]float32, n)}
	gradients := [2][][]float32{make([][]float32, n), make([][]float32, n)}
	for side := range 2 {
		for i, p := range pairs {
			units[side][i], lengths[side][i] = t.sum(p[side])
			gradients[side][i] = make([]float32, t.dimensions)
		}
	}
	var losses [2]float64
	var all sync.WaitGroup
	for side := range 2 {
		all.Go(func() {
			own, other := units[side], units[1-side]
			weights := make([]float64, n)
			for i := range n {
				var total float64
				for j := range n {
					weights[j] = math.Exp(float64(dot(own[i], other[j])-1) / temperature)
					total += weights[j]
				}
				losses[side] -= math.Log(weights[i] / total)
				// The other side's vectors are taken as given; their own turn moves them.
				for j := range n {
					g := weights[j] / total
					if i == j {
						g--
					}
					if f := weight * float32(g/temperature); f > 1e-3 || f < -1e-3 {
						addScaled(gradients[side][i], f, other[j])
					}
				}
			}
		})
	}
	all.Wait()
	for side := range 2 {
		for i, p := range pairs {
			t.descend(p[side], units[side][i], lengths[side][i], gradients[side][i])
		}
	}
	return (losses[0] + losses[1]) / float64(2*n)
}

// train goes through the lessons and pairs some times, in random order.
func (t *trainer) train(r *rand.Rand, lessons []lesson, pairs []pair, rounds int) {
	began := time.Now()
	highest := t.rate
	steps := max(len(pairs), len(lessons)) / batch
	for round := range rounds {
		r.Shuffle(len(lessons), func(i, j int) { lessons[i], lessons[j] = lessons[j], lessons[i] })
		r.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		var taught, pulled float64
		for s := range steps {
			t.rate = highest * (1 - float32(round*steps+s)/float32(rounds*steps+1))
			taught += t.learn(some(lessons, s), 1)
			pulled += t.pull(some(pairs, s), 0.1)
		}
		fmt.Printf("round %d after %v: loss %.4f of lessons, %.4f of pairs\n", round+1, time.Since(began).Round(time.Second), taught/float64(steps), pulled/float64(steps))
	}
}

// some returns batch number s, from the beginning again after the end.
func some[T any](all []T, s int) []T {
	at := s * batch % (len(all) - batch)
	return all[at : at+batch]
}
