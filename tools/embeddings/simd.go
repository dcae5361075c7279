//go:build goexperiment.simd && amd64

package main

import (
	"simd/archsimd"
	"unsafe"
)

// The two loops that training spends its time in, on a processor that has AVX-512.

func wide(v []float32) [][16]float32 {
	return unsafe.Slice((*[16]float32)(unsafe.Pointer(&v[0])), len(v)/16)
}

// dot returns the product of two vectors, whose length is a multiple of 16.
func dot(a, b []float32) (sum float32) {
	as := wide(a)
	bs := wide(b)[:len(as)]
	var s archsimd.Float32x16
	for i := range as {
		s = archsimd.LoadFloat32x16(&as[i]).MulAdd(archsimd.LoadFloat32x16(&bs[i]), s)
	}
	var parts [16]float32
	s.Store(&parts)
	archsimd.ClearAVXUpperBits()
	for _, p := range parts {
		sum += p
	}
	return sum
}

// addScaled adds f times x to v.
func addScaled(v []float32, f float32, x []float32) {
	vs := wide(v)
	xs := wide(x)[:len(vs)]
	scale := archsimd.BroadcastFloat32x16(f)
	for i := range vs {
		archsimd.LoadFloat32x16(&xs[i]).MulAdd(scale, archsimd.LoadFloat32x16(&vs[i])).Store(&vs[i])
	}
	archsimd.ClearAVXUpperBits()
}
