package engine

import "bytes"

// The memory of QuickJS begins with its stack, which is empty between calls. Its data and its
// heap follow, and then spare memory, so that a small call doesn't need more.
const (
	stackEnd    = 1 << 20
	spareMemory = 192 << 10
)

var zeroBlock [blockSize]byte

// An image is the memory of an instance that has loaded the prelude and nothing else, and the
// places of values in it.
type image struct {
	data []byte // from stackEnd
	size uint32 // of the whole memory

	undefined                        value
	arguments                        uint32 // the address of room for the arguments of vm.try
	load, run, settle, tick, explain value
}

// A delta is what the memory of an instance with a program differs in from its image.
type delta struct {
	at   []int  // the addresses of blocks
	data []byte // all blocks
	size uint32 // of the whole memory
}

// keep fills the image with the memory of v.
func (im *image) keep(v *vm) {
	im.size = v.memory.Size()
	now, _ := v.memory.Read(stackEnd, im.size-stackEnd)
	im.data = bytes.Clone(now)
	clear(im.data[v.marks-stackEnd:][:marksSize])
}

// block returns the block of the image at an address.
func (im *image) block(at int) []byte {
	if at < stackEnd || at >= int(im.size) {
		return zeroBlock[:]
	}
	return im.data[at-stackEnd:][:blockSize]
}

// delta returns what the memory of v differs in from its image.
func (v *vm) delta() *delta {
	d := &delta{size: v.memory.Size()}
	now, _ := v.memory.Read(0, d.size)
	for at := stackEnd; at < len(now); at += blockSize {
		if at == int(v.marks) {
			at += marksSize
		}
		if b := now[at:][:blockSize]; !bytes.Equal(b, v.image.block(at)) {
			d.at = append(d.at, at)
			d.data = append(d.data, b...)
		}
	}
	d.data = bytes.Clone(d.data)
	return d
}

// rewind makes the memory what it was when d was taken; a nil d stands for a clean instance. It
// restores the blocks that were marked since the last time, and those in which the programs then and now differ.
// It fails if the memory is larger than it was then, because memory can't shrink.
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
	if v.program != d {
		for _, at := range v.program.at {
			v.mark(uint32(at), blockSize)
		}
	}
	now, _ := v.memory.Read(0, d.size)
	marks := v.marked()[:min(marksSize, d.size/blockSize)] // the memory was never larger
	k := 0                                                 // the next block of d
	restore := func(at int) {
		want := v.image.block(at)
		for k < len(d.at) && d.at[k] < at {
			k++
		}
		if k < len(d.at) && d.at[k] == at {
			want = d.data[k*blockSize:][:blockSize]
		}
		copy(now[at:][:blockSize], want)
	}
	for i := 0; ; i++ {
		next := bytes.IndexByte(marks[i:], 1)
		if next < 0 {
			break
		}
		i += next
		restore(i * blockSize)
		if end := (i + 1) * blockSize; end < len(now) && end != int(v.marks) {
			restore(end) // a store that isn't aligned reaches into it
		}
		marks[i] = 0
	}
	if v.program != d {
		for k, at := range d.at {
			copy(now[at:], d.data[k*blockSize:][:blockSize])
		}
		v.program = d
	}
	return true
}
