package quantity_test

import (
	"math"
	"testing"
	"time"

	"kernos/internal/quantity"
)

func TestDurationsAndBytesAreRead(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0d": 0, "90m": 90 * time.Minute, "720h": 30 * day, "30d": 30 * day,
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5d": 36 * time.Hour, "2w": 14 * day, "1d12h": 36 * time.Hour, "1w2d3h": 9*day + 3*time.Hour,
		"4294967295d": math.MaxInt64, "99999999999w1d1h": math.MaxInt64,
	} {
		var got quantity.Duration
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("age %q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "-1h", "-1d", "1d-1h", "1y", "1d1w", "1e30d", "NaNd", "Infd", "w", "99999999999h", "1d "} {
		if err := new(quantity.Duration).Set(text); err == nil {
			t.Errorf("age %q was taken", text)
		}
	}
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "12B": 12, "1KB": 1 << 10, "1k": 1 << 10, "500MB": 500 << 20, "4GB": 4 << 30, "4 GB": 4 << 30, "2tb": 2 << 40,
		"9223372036854775807": 1<<63 - 1,
	} {
		var got quantity.Bytes
		if err := got.Set(text); err != nil || int64(got) != want {
			t.Errorf("size %q: %d, %v; want %d", text, int64(got), err, want)
		}
	}
	for _, text := range []string{"", "GB", "-1", "1.5GB", "4XB", "4GBB", "4GiB", "9223372036854775807KB", "99999999999999999999"} {
		if err := new(quantity.Bytes).Set(text); err == nil {
			t.Errorf("size %q was taken", text)
		}
	}
}

// What the help shows as a default can be given.
func TestTextsCanBeReadAgain(t *testing.T) {
	for _, want := range []quantity.Bytes{0, 1, 1023, 1024, 1025, 4 << 30, 3 << 40, 5 << 50} {
		var got quantity.Bytes
		if err := got.Set(want.String()); err != nil || got != want {
			t.Errorf("%d is shown as %s, which is %d, %v", want, want.String(), got, err)
		}
	}
	for _, want := range []quantity.Duration{0, 1, quantity.Duration(time.Hour), quantity.Duration(30 * 24 * time.Hour)} {
		var got quantity.Duration
		if err := got.Set(want.String()); err != nil || got != want {
			t.Errorf("%d is shown as %s, which is %d, %v", want, want.String(), got, err)
		}
	}
}
