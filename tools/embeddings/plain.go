//go:build !goexperiment.simd || !amd64

package main

// dot returns the product of two vectors.
func dot(a, b []float32) (sum float32) {
	b = b[:len(a)]
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// addScaled adds f times x to v.
func addScaled(v []float32, f float32, x []float32) {
	x = x[:len(v)]
	for i := range v {
		v[i] += f * x[i]
	}
}
