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

// The bounds on what a file may claim, far above those of the models that are run.
const (
	mostEntries = 1 << 20
	mostDepth   = 4
)

// parse reads a GGUF file of version 3. It never reads outside data, whatever the file contains.
func parse(data []byte) (*file, error) {
	r := &reader{data: data}
	if magic := r.bytes(4); string(magic) != "GGUF" {
		return nil, fmt.Errorf("this isn't a GGUF file: it begins with %q", magic)
	}
	if version := r.u32(); version != 3 && r.err == nil {
		return nil, fmt.Errorf("the GGUF file has version %d; version 3 is read", version)
	}
	tensors, settings := r.count(), r.count()
	f := &file{settings: make(map[string]any), tensors: make(map[string]tensor)}
	for range settings {
		name := r.text()
		f.settings[name] = r.value(r.u32(), mostDepth)
		if r.err != nil {
			return nil, r.err
		}
	}
	offsets := make(map[string]uint64, tensors)
	for range tensors {
		name := r.text()
		t := tensor{columns: 1, rows: 1}
		dimensions := r.u32()
		if dimensions < 1 || dimensions > 2 {
			r.fail("tensor %q has %d dimensions; 1 and 2 are read", name, dimensions)
		}
		for i := uint32(0); i < dimensions && r.err == nil; i++ {
			n := r.count()
			if i == 0 {
				t.columns = n
			} else {
				t.rows = n
			}
		}
		t.kind = r.u32()
		offsets[name] = r.u64()
		f.tensors[name] = t
		if r.err != nil {
			return nil, r.err
		}
	}
	alignment := 32
	if n, ok := f.settings["general.alignment"].(uint32); ok && n > 0 && n <= 1<<16 {
		alignment = int(n)
	}
	start := (r.at + alignment - 1) / alignment * alignment
	for name, t := range f.tensors {
		size, err := t.size()
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if start > len(data) || offsets[name] > uint64(len(data)-start) || size > len(data)-start-int(offsets[name]) {
			return nil, fmt.Errorf("tensor %q lies beyond the end of the file", name)
		}
		at := start + int(offsets[name])
		t.data = data[at : at+size : at+size]
		f.tensors[name] = t
	}
	return f, nil
}

func (t tensor) size() (int, error) {
	n := t.columns * t.rows
	switch t.kind {
	case kindF32:
		return 4 * n, nil
	case kindQ8:
		if t.columns%blockSize != 0 {
			return 0, fmt.Errorf("a row of %d weights isn't whole blocks of %d", t.columns, blockSize)
		}
		return n / blockSize * blockBytes, nil
	}
	return 0, fmt.Errorf("kind %d isn't read; F32 and Q8_0 are", t.kind)
}

// number returns a setting that is a whole number.
func (f *file) number(name string) (int, error) {
	switch n := f.settings[name].(type) {
	case uint32:
		return int(n), nil
	case int32:
		return int(n), nil
	case uint64:
		return int(n), nil
	}
	return 0, fmt.Errorf("the setting %s is missing, or isn't a whole number", name)
}

func (f *file) float(name string) (float32, error) {
	if x, ok := f.settings[name].(float32); ok {
		return x, nil
	}
	return 0, fmt.Errorf("the setting %s is missing, or isn't a float32", name)
}

func list[T any](f *file, name string) ([]T, error) {
	values, ok := f.settings[name].([]any)
	if !ok {
		return nil, fmt.Errorf("the setting %s is missing, or isn't a list", name)
	}
	all := make([]T, len(values))
	for i, v := range values {
		if all[i], ok = v.(T); !ok {
			return nil, fmt.Errorf("the setting %s has an entry of another type: %v", name, v)
		}
	}
	return all, nil
}

// reader reads numbers and texts from the front of data. After an error it returns zeros.
type reader struct {
	data []byte
	at   int
	err  error
}

func (r *reader) fail(format string, values ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, values...)
	}
}

func (r *reader) bytes(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.data)-r.at) {
		r.fail("the file ends at byte %d, within a value", len(r.data))
	}
	if r.err != nil {
		return nil
	}
	b := r.data[r.at : r.at+n]
	r.at += n
	return b
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads how many of something follow.
func (r *reader) count() int {
	n := r.u64()
	if n > mostEntries {
		r.fail("the file claims %d entries; at most %d are read", n, mostEntries)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return string(r.bytes(r.count())) }

// value reads a setting of a type of the format.
func (r *reader) value(kind uint32, depth int) any {
	switch kind {
	case 0, 1, 7: // 8 bits, and booleans
		if b := r.bytes(1); b != nil {
			return b[0]
		}
	case 2, 3: // 16 bits
		if b := r.bytes(2); b != nil {
			return binary.LittleEndian.Uint16(b)
		}
	case 4:
		return r.u32()
	case 5:
		return int32(r.u32())
	case 6:
		return math.Float32frombits(r.u32())
	case 8:
		return r.text()
	case 9:
		element, n := r.u32(), r.count()
		if depth == 0 {
			r.fail("a setting has lists within lists within lists")
			return nil
		}
		var all []any
		for i := 0; i < n && r.err == nil; i++ {
			all = append(all, r.value(element, depth-1))
		}
		return all
	case 10, 11:
		return r.u64()
	case 12:
		return math.Float64frombits(r.u64())
	default:
		r.fail("a setting has the unknown type %d", kind)
	}
	return nil
}
