package engine

import (
	"bytes"

	"github.com/tetratelabs/wazero/api"
)

// The memory of QuickJS begins with its stack, which is empty between calls. Its data and its
// heap follow, and then spare memory, so that a small call doesn't need more.
const (
	pageSize    = 4096
	stackEnd    = 1 << 20
	spareMemory = 512 << 10
)

var zeroPage [pageSize]byte

// An image is the memory of an instance that has loaded the prelude and nothing else, and the
// places of values in it.
type image struct {
	memory []byte // from stackEnd to the last page that isn't zero
	size   uint32 // of the whole memory

	undefined                        value
	arguments                        uint32 // the address of room for the arguments of vm.try
	load, run, settle, tick, explain value
}

// A delta is what the memory of an instance with a program differs in from its image.
type delta struct {
	pages []page
	size  uint32
}

type page struct {
	index int
	data  []byte
}

// keep fills the image with the memory of v.
func (im *image) keep(v *vm) {
	im.size = v.memory.Size()
	all, _ := v.memory.Read(0, im.size)
	end := len(all)
	for end > stackEnd && bytes.Equal(all[end-pageSize:end], zeroPage[:]) {
		end -= pageSize
	}
	im.memory = bytes.Clone(all[stackEnd:end])
}

// page returns a page of the image; the first one begins at stackEnd.
func (im *image) page(i int) []byte {
	if at := i * pageSize; at < len(im.memory) {
		return im.memory[at : at+pageSize]
	}
	return zeroPage[:]
}

// delta returns what the memory of v differs in from its image.
func (v *vm) delta() *delta {
	d := &delta{size: v.memory.Size()}
	all, _ := v.memory.Read(stackEnd, d.size-stackEnd)
	for i := range len(all) / pageSize {
		now := all[i*pageSize : (i+1)*pageSize]
		if !bytes.Equal(now, v.image.page(i)) {
			d.pages = append(d.pages, page{i, bytes.Clone(now)})
		}
	}
	return d
}

// rewind makes the memory what it was when d was taken; a nil d stands for a clean instance. It
// fails if the memory is larger than it was then, because memory can't shrink.
func (v *vm) rewind(d *delta) bool {
	size := v.image.size
	var pages []page
	if d != nil {
		size, pages = d.size, d.pages
	}
	if n := v.memory.Size(); n > size {
		return false
	} else if n < size {
		if _, ok := v.memory.Grow((size - n) >> 16); !ok {
			return false
		}
	}
	v.module.ExportedGlobal("__stack_pointer").(api.MutableGlobal).Set(stackEnd)
	stack, _ := v.memory.Read(0, stackEnd)
	for at, zeros := stackEnd-pageSize, 0; at >= 0 && zeros < 16; at -= pageSize {
		if p := stack[at : at+pageSize]; bytes.Equal(p, zeroPage[:]) {
			zeros++
		} else {
			clear(p)
			zeros = 0
		}
	}
	all, _ := v.memory.Read(stackEnd, size-stackEnd)
	for i := range len(all) / pageSize {
		want := v.image.page(i)
		if len(pages) > 0 && pages[0].index == i {
			want, pages = pages[0].data, pages[1:]
		}
		if now := all[i*pageSize : (i+1)*pageSize]; !bytes.Equal(now, want) {
			copy(now, want)
		}
	}
	return true
}
