// Package conformance holds conversations from the specifications as files, and the
// tests that hold them with a kernel over every wire. README.md describes the files.
package conformance
