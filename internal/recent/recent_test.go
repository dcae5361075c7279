package recent

import (
	"fmt"
	"testing"
)

func TestWhatWasNotUsedLongestGoes(t *testing.T) {
	const most = 100
	c := New[int](Limits{Values: most, Bytes: 1 << 20, Each: 1 << 20})
	for i := range most + 10 {
		c.Put(fmt.Sprint(i), i, 1)
		if i < most {
			c.Get("0") // it stays
		}
	}
	if _, ok := c.Get("0"); !ok {
		t.Error("what was used all the time is gone")
	}
	if _, ok := c.Get("1"); ok {
		t.Error("what was never used is there")
	}
	if v, ok := c.Get(fmt.Sprint(most)); !ok || v != most {
		t.Errorf("the newest is %d %v", v, ok)
	}
	if n := c.order.Len(); n != most || n != len(c.kept) {
		t.Errorf("%d are kept", n)
	}
}

func TestBytesAreCounted(t *testing.T) {
	c := New[int](Limits{Values: 1000, Bytes: 16 << 20, Each: 2 << 20})
	for i := range 100 {
		c.Put(fmt.Sprint(i), i, 1<<20)
		if c.bytes > 16<<20 {
			t.Fatalf("%d bytes", c.bytes)
		}
	}
	c.Put("99", 0, 2<<20+1) // too large, and the one before is out of date
	if _, ok := c.Get("99"); ok {
		t.Error("something too large is kept, or what it replaces")
	}
	for i := range 100 {
		c.Drop(fmt.Sprint(i))
	}
	if c.bytes != 0 || c.order.Len() != 0 {
		t.Errorf("empty, it has %d bytes in %d", c.bytes, c.order.Len())
	}
}
