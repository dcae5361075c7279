package job

import (
	"testing"
	"time"
)

// Times returns the times of a schedule after from and until to.
func Times(t *testing.T, expression, zone string, from, to time.Time) (times []time.Time) {
	t.Helper()
	s, err := readSchedule(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	for at := s.next(from); !at.IsZero() && !at.After(to); at = s.next(at) {
		times = append(times, at)
	}
	return times
}
