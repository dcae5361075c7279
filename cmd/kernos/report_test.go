package main

import (
	"crypto/rand"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// What is kept is the store and the blobs.
func TestBlobsCountAsStored(t *testing.T) {
	t.Setenv("KERNOS_HOME", t.TempDir())
	t.Setenv("KERNOS_ORIGIN", "")
	s, err := findState(slog.New(slog.DiscardHandler), defaultRetention, &defaultOutside)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	if got := (&report{state: s}).stored(); got.Open || got.Bytes != 0 {
		t.Errorf("before the store is open: %+v", got)
	}
	if _, err := s.record(); err != nil {
		t.Fatal(err)
	}
	before := (&report{state: s}).stored().Bytes
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	if _, err := s.blobs.Put(data); err != nil {
		t.Fatal(err)
	}
	if after := (&report{state: s}).stored(); !after.Open || after.Bytes-before < 1<<20 {
		t.Errorf("%d became %+v", before, after)
	}
}

// Finding out how much room there is takes a tenth of the time at most.
func TestUsageIsNotMeasuredAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u usage
		measured := int64(0)
		measure := func() int64 {
			time.Sleep(time.Second)
			measured++
			return measured
		}
		for i, want := range []int64{1, 1, 1, 2} {
			if got := u.of(measure); got != want {
				t.Errorf("%d: got %d", i, got)
			}
			time.Sleep(4 * time.Second)
		}
	})
}
