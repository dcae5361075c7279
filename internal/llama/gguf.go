package llama

import (
	"encoding/binary"
	"fmt"
	"math"
)

// file is what a GGUF file holds: settings by name, and tensors whose bytes are the file's own.
type file struct {
	settings map[string]any
	tensors  map[string]tensor
}

// tensor is a matrix as the file stores it, row by row.
type tensor struct {
	columns, rows int
	kind          uint32
	data          []byte
}

// The kinds of tensors that are read.
const (
	kindF32 = 0
	kindQ8  = 8 // Q8_0: blocks of 32 weights, each with its scale
)

// alignment is where the tensors of a file begin, and where each of them does.
const alignment = 32

// parse reads a GGUF file of version 3. It panics if the file isn't one; see [Open].
func parse(data []byte) *file {
	r := &reader{data}
	if magic, version := string(r.bytes(4)), r.u32(); magic != "GGUF" || version != 3 {
		panic(fmt.Sprintf("it begins with %q and version %d", magic, version))
	}
	tensors, settings := r.u64(), r.u64()
	f := &file{settings: make(map[string]any), tensors: make(map[string]tensor)}
	for range settings {
		name := r.text()
		f.settings[name] = r.value(r.u32())
	}
	offsets := make(map[string]uint64)
	for range tensors {
		name := r.text()
		t := tensor{columns: 1, rows: 1}
		sizes := []*int{&t.columns, &t.rows}
		for i := range r.u32() {
			*sizes[i] = int(r.u64())
		}
		t.kind = r.u32()
		offsets[name] = r.u64()
		f.tensors[name] = t
	}
	start := (len(data) - len(r.data) + alignment - 1) / alignment * alignment
	for name, t := range f.tensors {
		t.data = data[start:][offsets[name]:][:t.size()]
		f.tensors[name] = t
	}
	return f
}

// size returns how many bytes the tensor has.
func (t tensor) size() int {
	if t.kind == kindQ8 {
		return t.columns / blockSize * t.rows * blockBytes
	}
	return 4 * t.columns * t.rows
}

// number returns a setting that is a whole number.
func (f *file) number(name string) int { return int(f.settings[name].(uint32)) }

// list returns a setting that is a list.
func list[T any](f *file, name string) (all []T) {
	for _, v := range f.settings[name].([]any) {
		all = append(all, v.(T))
	}
	return all
}

// reader reads numbers and texts from the front of data.
type reader struct{ data []byte }

func (r *reader) bytes(n uint64) (b []byte) {
	b, r.data = r.data[:n], r.data[n:]
	return b
}

func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }

func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

func (r *reader) text() string { return string(r.bytes(r.u64())) }

// The types of settings, beside lists of them, that files of models have.
const (
	settingU32  = 4
	settingI32  = 5
	settingF32  = 6
	settingBool = 7
	settingText = 8
	settingList = 9
)

// value reads a setting of a type.
func (r *reader) value(kind uint32) any {
	if kind != settingList {
		return r.single(kind)
	}
	var all []any
	element := r.u32()
	for range r.u64() {
		all = append(all, r.single(element))
	}
	return all
}

func (r *reader) single(kind uint32) any {
	switch kind {
	case settingU32:
		return r.u32()
	case settingI32:
		return int32(r.u32())
	case settingF32:
		return math.Float32frombits(r.u32())
	case settingBool:
		return r.bytes(1)[0] != 0
	case settingText:
		return r.text()
	}
	panic(fmt.Sprintf("a setting has the type %d", kind))
}
