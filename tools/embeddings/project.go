package main

import (
	"math"
	"math/rand/v2"
)

// A projection takes vectors to fewer dimensions: those in which they differ most.
type projection struct {
	mean []float32
	axes [][]float32
}

// newProjection finds the axes by orthogonal iteration on the covariance of the vectors.
func newProjection(r *rand.Rand, vectors [][]float32, dimensions int) *projection {
	size := len(vectors[0])
	p := &projection{mean: make([]float32, size)}
	for _, v := range vectors {
		for i, x := range v {
			p.mean[i] += x / float32(len(vectors))
		}
	}
	covariance := make([][]float32, size)
	for i := range covariance {
		covariance[i] = make([]float32, size)
	}
	centred := make([]float32, size)
	for _, v := range vectors {
		for i, x := range v {
			centred[i] = x - p.mean[i]
		}
		for i, x := range centred {
			addScaled(covariance[i], x, centred)
		}
	}
	p.axes = make([][]float32, dimensions)
	for a := range p.axes {
		p.axes[a] = make([]float32, size)
		for i := range p.axes[a] {
			p.axes[a][i] = float32(r.NormFloat64())
		}
	}
	for range 12 {
		for a, axis := range p.axes {
			turned := make([]float32, size)
			for i := range turned {
				turned[i] = dot(covariance[i], axis)
			}
			for _, earlier := range p.axes[:a] {
				addScaled(turned, -dot(turned, earlier), earlier)
			}
			unit(turned)
			p.axes[a] = turned
		}
	}
	return p
}

func (p *projection) apply(v []float32) []float32 {
	centred := make([]float32, len(v))
	for i, x := range v {
		centred[i] = x - p.mean[i]
	}
	out := make([]float32, len(p.axes))
	for a, axis := range p.axes {
		out[a] = dot(centred, axis)
	}
	unit(out)
	return out
}

func unit(v []float32) {
	length := float32(math.Sqrt(float64(dot(v, v)))) + 1e-12
	for i := range v {
		v[i] /= length
	}
}
