package main

import (
	"testing"

	"kernos/message"
)

// TestLinesAreWhatTheTableSays keeps the benchmark honest about what it sends.
func TestLinesAreWhatTheTableSays(t *testing.T) {
	for _, c := range []struct {
		lines     [][]byte
		low, high int
	}{
		{smallLines(10), 130, 130},
		{largeLines(10), 7_900, 8_300},
	} {
		for _, line := range c.lines {
			if len(line) < c.low || len(line) > c.high {
				t.Errorf("a line has %d bytes, want %d to %d", len(line), c.low, c.high)
			}
			if _, err := message.Decode(line); err != nil {
				t.Error(err)
			}
		}
	}
}
