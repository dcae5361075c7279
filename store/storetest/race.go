//go:build race

package storetest

// raced means that the race detector is at work, which makes everything several times as
// slow.
const raced = true
