package content

import (
	"fmt"
	"testing"
)

func TestCacheForgetsWhatWasNotUsedLongest(t *testing.T) {
	var c cache[int]
	for i := range maxKept + 10 {
		c.put(fmt.Sprint(i), "v", i, 0)
		if i < maxKept {
			c.get("0") // it stays
		}
	}
	if _, _, ok := c.get("0"); !ok {
		t.Error("what was used all the time is gone")
	}
	if _, _, ok := c.get("1"); ok {
		t.Error("what was never used is there")
	}
	if v, version, ok := c.get(fmt.Sprint(maxKept)); !ok || v != maxKept || version != "v" {
		t.Errorf("the newest is %d %q %v", v, version, ok)
	}
	if n := c.order.Len(); n > maxKept || n != len(c.kept) {
		t.Errorf("%d are kept", n)
	}
}

func TestCacheCountsBytes(t *testing.T) {
	var c cache[int]
	for i := range 100 {
		c.put(fmt.Sprint(i), "", i, 1<<20)
		if c.bytes > maxKeptBytes {
			t.Fatalf("%d bytes", c.bytes)
		}
	}
	c.put("99", "", 0, maxKeptValue+1) // too large, and the one before is out of date
	if _, _, ok := c.get("99"); ok {
		t.Error("something too large is kept, or what it replaces")
	}
	for i := range 100 {
		c.drop(fmt.Sprint(i))
	}
	if c.bytes != 0 || c.order.Len() != 0 {
		t.Errorf("empty, it has %d bytes in %d", c.bytes, c.order.Len())
	}
}
