//go:build goexperiment.simd && amd64

package encoder

import (
	"simd/archsimd"
	"unsafe"
)

// dots returns the products of w and four vectors of its length, a multiple of 16. It is for
// tools/embeddings, which encodes hundreds of thousands of texts, on a processor that has AVX-512.
func dots(w, a, b, c, d []float32) (sums [4]float32) {
	wide := func(v []float32) [][16]float32 {
		return unsafe.Slice((*[16]float32)(unsafe.Pointer(&v[0])), len(v)/16)
	}
	ws := wide(w)
	as, bs, cs, ds := wide(a)[:len(ws)], wide(b)[:len(ws)], wide(c)[:len(ws)], wide(d)[:len(ws)]
	var s0, s1, s2, s3 archsimd.Float32x16
	for i := range ws {
		v := archsimd.LoadFloat32x16(&ws[i])
		s0 = archsimd.LoadFloat32x16(&as[i]).MulAdd(v, s0)
		s1 = archsimd.LoadFloat32x16(&bs[i]).MulAdd(v, s1)
		s2 = archsimd.LoadFloat32x16(&cs[i]).MulAdd(v, s2)
		s3 = archsimd.LoadFloat32x16(&ds[i]).MulAdd(v, s3)
	}
	var parts [4][16]float32
	s0.Store(&parts[0])
	s1.Store(&parts[1])
	s2.Store(&parts[2])
	s3.Store(&parts[3])
	archsimd.ClearAVXUpperBits()
	for i := range 16 {
		for n := range sums {
			sums[n] += parts[n][i]
		}
	}
	return sums
}
