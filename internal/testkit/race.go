//go:build race

package testkit

// Race reports whether the race detector is at work, which makes everything several times as slow
// and as large.
const Race = true
