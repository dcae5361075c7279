package daemon

import (
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"
)

// What is kept is the store and the blobs.
func TestBlobsCountAsStored(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(&Options{Home: dir, Unrecorded: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Status().Store; got.Open || got.Bytes != 0 {
		t.Errorf("before the store is open: %+v", got)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(&Options{Home: dir}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	before := d.Status().Store.Bytes
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	if _, err := d.state.blobs.Put(data); err != nil {
		t.Fatal(err)
	}
	d.size = diskSize{}
	if after := d.Status().Store; !after.Open || after.Bytes-before < 1<<20 {
		t.Errorf("%d became %+v", before, after)
	}
}

// Finding out how much room there is takes a tenth of the time at most.
func TestUsageIsNotMeasuredAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u diskSize
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
