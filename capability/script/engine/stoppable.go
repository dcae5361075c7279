package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// stoppable returns a WebAssembly module that traps in its next loop once the word at address 0
// of its memory isn't zero. QuickJS asks now and then whether it shall stop, but not in the loops of
// its own functions: [].indexOf of an object with a length of 2^53 would run for years. wazero can
// stop a module too, but makes it four times as slow.
func stoppable(module []byte) ([]byte, error) {
	if len(module) < 8 {
		return nil, errors.New("it is too short")
	}
	r := &reader{b: module, at: 8}
	out := append(make([]byte, 0, len(module)*11/10), module[:8]...)
	for r.at < len(module) {
		id, body := r.byte(), r.bytes(int(r.number()))
		if id == 10 { // the functions
			var err error
			if body, err = stoppableCode(body); err != nil {
				return nil, err
			}
		}
		out = binary.AppendUvarint(append(out, id), uint64(len(body)))
		out = append(out, body...)
	}
	return out, r.err
}

func stoppableCode(section []byte) ([]byte, error) {
	r := &reader{b: section}
	functions := r.number()
	out := binary.AppendUvarint(make([]byte, 0, len(section)*11/10), functions)
	var body []byte
	for range functions {
		f := &reader{b: r.bytes(int(r.number()))}
		body = body[:0]
		for range f.number() { // its variables
			f.number()
			f.byte()
		}
		copied := 0
		for f.at < len(f.b) && f.err == nil {
			if f.instruction() == opLoop {
				body = append(append(body, f.b[copied:f.at]...), check...)
				copied = f.at
			}
		}
		if f.err != nil {
			return nil, f.err
		}
		body = append(body, f.b[copied:]...)
		out = append(binary.AppendUvarint(out, uint64(len(body))), body...)
	}
	return out, r.err
}

const opLoop = 0x03

// check is: i32.const 0, i32.load, if, unreachable, end.
var check = []byte{0x41, 0, 0x28, 2, 0, 0x04, 0x40, 0x00, 0x0B}

// A reader reads the binary form of WebAssembly. Its error stays.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) bytes(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)-r.at) {
		r.err = errors.New("it ends early")
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// number reads a number of variable length; a negative one as some other number.
func (r *reader) number() uint64 {
	var n uint64
	for shift := 0; r.err == nil; shift += 7 {
		b := r.byte()
		n |= uint64(b&0x7F) << shift
		if b < 0x80 {
			break
		}
	}
	return n
}

// instruction reads one instruction and returns its code.
func (r *reader) instruction() byte {
	op := r.byte()
	operands := 0
	switch {
	case op == 0x0E: // br_table
		operands = int(r.number()) + 1
	case op == 0x1C: // select with types
		operands = int(r.number())
	case op == 0x43: // f32.const
		r.bytes(4)
	case op == 0x44: // f64.const
		r.bytes(8)
	case op >= 0x02 && op <= 0x04, op == 0x0C, op == 0x0D, op == 0x10, op >= 0x20 && op <= 0x26, op >= 0x3F && op <= 0x42, op == 0xD0, op == 0xD2:
		operands = 1
	case op == 0x11, op >= 0x28 && op <= 0x3E: // call_indirect, loads and stores
		operands = 2
	case op == 0xFC:
		switch code := r.number(); {
		case code <= 7: // conversions
		case code == 9, code == 11, code == 13, code >= 15 && code <= 17:
			operands = 1
		case code <= 14:
			operands = 2
		default:
			r.err = fmt.Errorf("instruction fc %x isn't known", code)
		}
	case op > 0xC4 && op != 0xD1:
		r.err = fmt.Errorf("instruction %x isn't known", op)
	}
	for ; operands > 0 && r.err == nil; operands-- {
		r.number()
	}
	return op
}
