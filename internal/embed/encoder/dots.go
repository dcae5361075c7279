//go:build !goexperiment.simd || !amd64

package encoder

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
