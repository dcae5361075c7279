package vectors

import (
	"bytes"
	"slices"
	"testing"
)

// What can be decoded is what was encoded: nothing else passes for a block.
func FuzzBlock(f *testing.F) {
	f.Add((&block{ids: []uint64{1}, signs: []uint64{7, 8, 9, 10}}).encode(), 256)
	f.Add((&block{ids: []uint64{5, 6, 1 << 63}, signs: []uint64{1, 2, 3}}).encode(), 3)
	f.Add([]byte{blockVersion, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}, 64)
	f.Fuzz(func(t *testing.T, b []byte, dimensions int) {
		if dimensions < 1 || dimensions > MaxDimensions {
			return
		}
		k, err := decodeBlock(b, dimensions)
		if err != nil {
			return
		}
		if len(k.ids) == 0 || len(k.signs) != len(k.ids)*words(dimensions) || !slices.IsSorted(k.ids) || len(slices.Compact(slices.Clone(k.ids))) != len(k.ids) {
			t.Fatalf("%d ids, %d words", len(k.ids), len(k.signs))
		}
		again, err := decodeBlock(k.encode(), dimensions)
		if err != nil || !slices.Equal(again.ids, k.ids) || !slices.Equal(again.signs, k.signs) {
			t.Fatalf("it isn't read as it was written: %v", err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add((&manifest{next: 3, last: 9000, blocks: []extent{{1, 5, 4100, 4096}, {2, 4101, 9000, 10}}}).encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		again, err := decodeManifest(m.encode())
		if err != nil || again.next != m.next || again.last != m.last || !slices.Equal(again.blocks, m.blocks) || m.entries() < uint64(len(m.blocks)) && m.entries() > 0 {
			t.Fatalf("it isn't read as it was written: %v", err)
		}
		if len(b) > 0 && !bytes.Equal(m.encode()[:1], b[:1]) {
			t.Fatal("another version")
		}
	})
}
