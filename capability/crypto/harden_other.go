//go:build !linux

package crypto

// Harden keeps what is in this process's memory out of core dumps. It is for the start of a
// program that has a keyring.
func Harden() error { return noCore() }
