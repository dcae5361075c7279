package job

import "time"

// never is when a schedule that is paused is due.
var never = time.UnixMilli(1<<53 - 1)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
