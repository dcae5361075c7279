package transport

import "time"

// Default gives a setting its default, unless it has a value above 0.
func Default[T int | int64 | time.Duration](setting *T, value T) {
	if *setting <= 0 {
		*setting = value
	}
}
