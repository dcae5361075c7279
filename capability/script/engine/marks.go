package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// The instrumented QuickJS has a byte for each block of its memory, its mark, and sets it when it has written to the block.
// Restoring what a call changed then takes a tenth of the time of comparing the whole memory, and leaves the
// processor's cache alone.
//
// The marks are memory of QuickJS too, which an error in it could write to. That doesn't stay hidden: such a write marks a block of
// the marks, a write that clears this mark marks another one, and the last write marks what no later one clears.
// QuickJS never writes there itself, so an instance with a marked block of marks is thrown away.
const (
	blockSize = 256     // a small program changes 26 KB of blocks; of whole pages it would be 172 KB
	marksSize = 1 << 16 // those of 16 MB; an instance that grows isn't used again, so that further blocks may share them
)

const (
	opStore, opLastStore        = 0x36, 0x3E
	opSetLocal, opTee, opStore8 = 0x21, 0x22, 0x3A
	opAdd, opAnd, opMore        = 0x6A, 0x71, 0x4B
)

// types reads how many parameters each of n types of functions has.
func (w *rewriter) types(r *reader, n uint64) {
	for range n {
		r.byte()
		params := r.number()
		w.params = append(w.params, params)
		r.bytes(int(params))
		r.bytes(int(r.number()))
	}
}

// memory puts the marks behind the memory that the module begins with.
func (w *rewriter) memory(r *reader) error {
	if count, flags := r.number(), r.number(); count != 1 || flags != 0 {
		return errors.New("it has more than one memory, or one with a limit")
	}
	pages := r.number()
	w.marks = uint32(pages << 16)
	w.section(sectionMemory, binary.AppendUvarint([]byte{1, 0}, pages+marksSize>>16))
	return r.err
}

// signed appends a signed number of variable length.
func signed(b []byte, n int64) []byte {
	for ; n < -64 || n > 63; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n)&0x7F)
}

// at appends the operands of a store to the marks.
func (w *rewriter) at(b []byte) []byte { return binary.AppendUvarint(append(b, 0), uint64(w.marks)) }

// set marks the block whose number is what code leaves on the stack.
func (w *rewriter) set(b []byte, code ...byte) []byte {
	return w.at(append(append(b, code...), opConst, 1, opStore8))
}

// markRange marks what a function wrote at its first parameter, as many bytes as its third one counts. Above the blocks that have
// marks of their own it marks nothing: an instance with so much memory isn't used again. The last block has no mark, since rewind restores
// the block after a marked one too.
func (w *rewriter) markRange() []byte {
	first := []byte{opLocal, 0, opConst, 8, opShr}
	last := []byte{opLocal, 0, opLocal, 2, opAdd, opConst, 1, opSub, opConst, 8, opShr}
	none := slices.Concat(last, signed([]byte{opConst}, marksSize-1), []byte{opMore, opIf, 0x40, 0x0F, opEnd}) // return
	return slices.Concat(none, w.set(nil, first...), last, first, []byte{opSub, opConst, 1, opMore, opIf, 0x40},
		first, signed([]byte{opConst}, int64(w.marks)), []byte{opAdd, opConst, 1}, last, first, []byte{opSub, 0xFC, 11, 0, opEnd})
}

// A marker adds marks to the stores of one function. It needs variables of its own.
type marker struct {
	w       *rewriter
	address uint64 // the number of the first variable
}

func (m marker) variables() []byte { return []byte{2, i32, 1, i64, 1, f32, 1, f64} }

// store appends a store, and what marks its block.
func (m marker) store(b, store []byte) []byte {
	value := m.address + 1
	switch store[0] {
	case 0x37, 0x3C, 0x3D, 0x3E:
		value = m.address + 2
	case 0x38:
		value = m.address + 3
	case 0x39:
		value = m.address + 4
	}
	b = binary.AppendUvarint(append(b, opSetLocal), value)
	b = binary.AppendUvarint(append(b, opTee), m.address)
	b = append(binary.AppendUvarint(append(b, opLocal), value), store...)
	operands := &reader{b: store, at: 1}
	operands.number()
	code := binary.AppendUvarint([]byte{opLocal}, m.address)
	if offset := operands.number(); offset > 0 {
		code = append(signed(append(code, opConst), int64(int32(offset))), opAdd)
	}
	code = append(signed(append(code, opConst, 8, opShr, opConst), marksSize-1), opAnd)
	return m.w.set(b, code...)
}

// marked returns the marks.
func (v *vm) marked() []byte {
	b, _ := v.memory.Read(v.marks, marksSize)
	return b
}

// mark marks what Go writes, or wants to be restored.
func (v *vm) mark(at, size uint32) {
	marks := v.marked()
	for i := at / blockSize; size > 0 && i <= (at+size-1)/blockSize && i < marksSize; i++ {
		marks[i] = 1
	}
}

// write writes to QuickJS's memory.
func (v *vm) write(at uint32, b []byte) bool {
	ok := v.memory.Write(at, b)
	if ok {
		v.mark(at, uint32(len(b)))
	}
	return ok
}

// spoiled reports whether the marks were written to. A write to the block before them may have reached into them.
func (v *vm) spoiled() bool {
	own := v.marks / blockSize
	return bytes.IndexByte(v.marked()[own-1:own+marksSize/blockSize], 1) >= 0
}
