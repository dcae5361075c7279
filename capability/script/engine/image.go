package engine

import "bytes"

// The memory of QuickJS begins with its stack, which is empty between calls. Its data and its
// heap follow, and then spare memory, so that a small call doesn't need more.
const (
	pageSize    = 4096
	stackEnd    = 1 << 20
	spareMemory = 192 << 10

	// blockSize is how finely a delta is told: with 256 bytes, a small program takes 26 KB; with whole pages
	// it would take 172 KB.
	blockSize = 256
)

var zeroPage [pageSize]byte

// An image is the memory of an instance that has loaded the prelude and nothing else, and the
// places of values in it.
type image struct {
	pages [][]byte // from stackEnd
	size  uint32   // of the whole memory

	undefined                        value
	arguments                        uint32 // the address of room for the arguments of vm.try
	load, run, settle, tick, explain value
}

// A delta is what the memory of an instance with a program differs in from its image.
type delta struct {
	at   []int  // where blocks are, from stackEnd
	data []byte // all blocks
	size uint32 // of the whole memory
}

// above returns the memory above the stack, and its number of pages.
func (v *vm) above() ([]byte, int) {
	b, _ := v.memory.Read(stackEnd, v.memory.Size()-stackEnd)
	return b, len(b) / pageSize
}

// keep fills the image with the memory of v.
func (im *image) keep(v *vm) {
	im.size = v.memory.Size()
	now, n := v.above()
	now = bytes.Clone(now)
	for i := range n {
		p := now[i*pageSize : (i+1)*pageSize]
		if bytes.Equal(p, zeroPage[:]) {
			p = zeroPage[:] // which stays in the processor's cache
		}
		im.pages = append(im.pages, p)
	}
}

// page returns a page of the image; the first one begins at stackEnd.
func (im *image) page(i int) []byte {
	if i < len(im.pages) {
		return im.pages[i]
	}
	return zeroPage[:]
}

// delta returns what the memory of v differs in from its image.
func (v *vm) delta() *delta {
	d := &delta{size: v.memory.Size()}
	now, n := v.above()
	for i := range n {
		for at := 0; at < pageSize; at += blockSize {
			if b := now[i*pageSize+at:][:blockSize]; !bytes.Equal(b, v.image.page(i)[at:at+blockSize]) {
				d.at = append(d.at, i*pageSize+at)
				d.data = append(d.data, b...)
			}
		}
	}
	d.data = bytes.Clone(d.data)
	return d
}

// rewind makes the memory what it was when d was taken; a nil d stands for a clean instance. It
// compares all of it, and writes what differs. It fails if the memory is larger than it was
// then, because memory can't shrink.
func (v *vm) rewind(d *delta) bool {
	if d == nil {
		d = &delta{size: v.image.size}
	}
	if n := v.memory.Size(); n > d.size {
		return false
	} else if n < d.size {
		if _, ok := v.memory.Grow((d.size - n) >> 16); !ok {
			return false
		}
	}
	v.stackPointer.Set(stackEnd)
	v.clearStack()
	now, n := v.above()
	k := 0 // the next block of d
	for i := range n {
		from, want := i*pageSize, v.image.page(i)
		if k == len(d.at) || d.at[k] >= from+pageSize {
			restore(now[from:from+pageSize], want)
			continue
		}
		for at := 0; at < pageSize; at += blockSize {
			block := want[at : at+blockSize]
			if k < len(d.at) && d.at[k] == from+at {
				block = d.data[k*blockSize : (k+1)*blockSize]
				k++
			}
			restore(now[from+at:from+at+blockSize], block)
		}
	}
	return true
}

func restore(now, want []byte) {
	if !bytes.Equal(now, want) {
		copy(now, want)
	}
}

// clearStack clears what the last call left below the end of the stack, down to four pages in
// which it left nothing.
func (v *vm) clearStack() {
	stack, _ := v.memory.Read(0, stackEnd)
	for at, zeros := stackEnd-pageSize, 0; at >= 0 && zeros < 4; at -= pageSize {
		zeros++
		if p := stack[at : at+pageSize]; !bytes.Equal(p, zeroPage[:]) {
			clear(p)
			zeros = 0
		}
	}
}
