package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestRetentionIsRead(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0d": 0, "90m": 90 * time.Minute, "720h": 30 * day, "30d": 30 * day,
		"4294967295d": time.Duration(maxDays) * day,
	} {
		var got age
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("age %q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "-1h", "-1d", "1.5d", "1y", "99999999999d", "99999999999h"} {
		if err := new(age).Set(text); err == nil {
			t.Errorf("age %q was taken", text)
		}
	}
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "12B": 12, "1KB": 1 << 10, "1k": 1 << 10, "500MB": 500 << 20, "4GB": 4 << 30, "4 GB": 4 << 30, "2tb": 2 << 40,
		"9223372036854775807": 1<<63 - 1,
	} {
		var got size
		if err := got.Set(text); err != nil || int64(got) != want {
			t.Errorf("size %q: %d, %v; want %d", text, int64(got), err, want)
		}
	}
	for _, text := range []string{"", "GB", "-1", "1.5GB", "4XB", "4GBB", "4GiB", "9223372036854775807KB", "99999999999999999999"} {
		if err := new(size).Set(text); err == nil {
			t.Errorf("size %q was taken", text)
		}
	}
}

// What the help shows as a default can be given.
func TestRetentionIsShownAsItIsGiven(t *testing.T) {
	for _, want := range []size{0, 1, 1023, 1024, 1025, 4 << 30, 3 << 40, 5 << 50} {
		var got size
		if err := got.Set(want.String()); err != nil || got != want {
			t.Errorf("%d is shown as %s, which is %d, %v", want, want.String(), got, err)
		}
	}
	for _, want := range []age{0, 1, age(time.Hour), age(30 * 24 * time.Hour)} {
		var got age
		if err := got.Set(want.String()); err != nil || got != want {
			t.Errorf("%d is shown as %s, which is %d, %v", want, want.String(), got, err)
		}
	}
}

// A flag is above the environment, and that above the default.
func TestRetentionComesFromFlagsAndTheEnvironment(t *testing.T) {
	t.Setenv("KERNOS_HOME", t.TempDir())
	get := func(args ...string) (keep retention, err error) {
		c := &cobra.Command{}
		keep.add(c)
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		return keep, completeSettings(c)
	}
	if keep, err := get(); err != nil || keep != defaultRetention {
		t.Errorf("by default: %+v, %v", keep, err)
	}
	t.Setenv("KERNOS_JOURNAL_AGE", "2d")
	t.Setenv("KERNOS_JOURNAL_SIZE", "1MB")
	t.Setenv("KERNOS_IDEMPOTENCY_TTL", "7d")
	if keep, err := get(); err != nil || keep != (retention{age(48 * time.Hour), 1 << 20, someAge{age(7 * 24 * time.Hour)}}) {
		t.Errorf("from the environment: %+v, %v", keep, err)
	}
	if keep, err := get("--journal-age=0", "--journal-size=1KB", "--idempotency-ttl=90m"); err != nil || keep != (retention{0, 1 << 10, someAge{age(90 * time.Minute)}}) {
		t.Errorf("from flags: %+v, %v", keep, err)
	}
	t.Setenv("KERNOS_IDEMPOTENCY_TTL", "0")
	if _, err := get(); err == nil || err.Error() != "KERNOS_IDEMPOTENCY_TTL: must be more than 0" {
		t.Errorf("a command that is forgotten at once: %v", err)
	}
}
