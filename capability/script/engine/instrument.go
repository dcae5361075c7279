package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// instrument returns a WebAssembly module that can be stopped and whose memory can be restored: in every few
// thousandth round of its loops it calls the function it imports as asks, and traps if that returns something else
// than 0; and it marks each block of memory that it writes to, in marks, of which it returns the address.
//
// QuickJS asks now and then whether it shall stop, but not in the loops of its own functions:
// [].indexOf of an object with a length of 2^53 would run for years. And while compiled
// WebAssembly runs, Go can't stop its goroutine for a garbage collection, so that the whole
// process would wait. wazero can stop a module too, but asks in each round, which makes it four times
// as slow.
func instrument(module []byte, asks string) (_ []byte, marks uint32, err error) {
	if len(module) < 8 {
		return nil, 0, errors.New("it is too short")
	}
	w := &rewriter{out: slices.Clone(module[:8])}
	r := &reader{b: module, at: 8}
	for r.at < len(module) && r.err == nil {
		id := r.byte()
		section := &reader{b: r.bytes(int(r.number()))}
		switch id {
		case sectionTypes:
			n := section.number()
			w.ask, w.bulk = n, n+1
			w.types(&reader{b: section.b, at: section.at}, n)
			w.vector(id, n+2, section.rest(), 0x60, 0, 0, 0x60, 3, i32, i32, i32, 0) // () → (), (i32, i32, i32) → ()
		case sectionImports:
			if err := w.imports(section.b, asks); err != nil {
				return nil, 0, err
			}
		case sectionFunctions:
			n := section.number()
			for types := (&reader{b: section.b, at: section.at}); types.at < len(types.b); {
				w.functions = append(w.functions, types.number())
			}
			w.first = w.imported + n
			types := binary.AppendUvarint(nil, w.ask)
			types = binary.AppendUvarint(types, w.bulk)
			types = binary.AppendUvarint(types, w.bulk)
			w.vector(id, n+3, section.rest(), types...)
		case sectionMemory:
			if err := w.memory(section); err != nil {
				return nil, 0, err
			}
		case sectionGlobals:
			n := section.number()
			w.left = binary.AppendUvarint(nil, n)
			w.vector(id, n+1, section.rest(), slices.Concat([]byte{i32, 1, 0x41}, rounds, []byte{opEnd})...)
		case sectionCode:
			if err := w.code(section); err != nil {
				return nil, 0, err
			}
		default:
			w.section(id, section.b)
		}
		if section.err != nil {
			return nil, 0, section.err
		}
	}
	if w.left == nil || w.first == 0 {
		return nil, 0, errors.New("it has no functions or no globals")
	}
	return w.out, w.marks, r.err
}

const (
	sectionTypes, sectionImports, sectionFunctions, sectionMemory, sectionGlobals, sectionCode = 1, 2, 3, 5, 6, 10

	i32, i64, f32, f64              = 0x7F, 0x7E, 0x7D, 0x7C
	opLoop, opIf, opEnd, opCall     = 0x03, 0x04, 0x0B, 0x10
	opLocal, opGlobal, opSetGlobal  = 0x20, 0x23, 0x24
	opConst, opAtMost, opSub, opShr = 0x41, 0x4C, 0x6B, 0x76
)

// rounds is how many rounds of loops pass between two questions, 16,384, as a signed number of variable length.
var rounds = []byte{0x80, 0x80, 0x01}

// A rewriter writes the module that instrument returns. It adds a global, left, with the rounds that are
// left, and three functions: one asks, the others fill and copy memory, which count as
// a round for every 64 bytes, and mark what they write.
type rewriter struct {
	out       []byte
	ask, bulk uint64 // types of the added functions
	imported  uint64 // how many functions are imported
	asks      []byte // the number of the imported function
	first     uint64 // the number of the first added function
	left      []byte // the number of the added global

	params    []uint64 // how many each type of function has
	functions []uint64 // the type of each function
	marks     uint32
}

func (w *rewriter) section(id byte, body []byte) {
	w.out = binary.AppendUvarint(append(w.out, id), uint64(len(body)))
	w.out = append(w.out, body...)
}

// vector writes a section that is a list of n elements.
func (w *rewriter) vector(id byte, n uint64, elements []byte, more ...byte) {
	w.section(id, slices.Concat(binary.AppendUvarint(nil, n), elements, more))
}

// imports finds the function that is asked.
func (w *rewriter) imports(body []byte, asks string) error {
	r := &reader{b: body}
	for range r.number() {
		r.bytes(int(r.number()))
		name, kind := string(r.bytes(int(r.number()))), r.byte()
		if kind != 0 {
			return fmt.Errorf("it imports %s, which isn't a function", name)
		}
		if name == asks {
			w.asks = binary.AppendUvarint(nil, w.imported)
		}
		r.number()
		w.imported++
	}
	if w.asks == nil {
		return fmt.Errorf("it doesn't import %s", asks)
	}
	w.section(sectionImports, body)
	return r.err
}

// count subtracts what code leaves on the stack from left, and asks if nothing is left.
func (w *rewriter) count(code ...byte) []byte {
	ask := binary.AppendUvarint(nil, w.first)
	return slices.Concat(
		[]byte{opGlobal}, w.left, code, []byte{opSub, opSetGlobal}, w.left,
		[]byte{opGlobal}, w.left, []byte{opConst, 0, opAtMost, opIf, 0x40, opCall}, ask, []byte{opEnd})
}

func (w *rewriter) code(r *reader) error {
	if w.left == nil || w.asks == nil {
		return errors.New("its sections aren't in order")
	}
	round := w.count(opConst, 1)
	size := w.count(opLocal, 2, opConst, 6, opShr)
	fill, copied := binary.AppendUvarint(nil, w.first+1), binary.AppendUvarint(nil, w.first+2)
	functions := r.number()
	out := make([]byte, 0, 2*len(r.b))
	out = binary.AppendUvarint(out, functions+3)
	var body []byte
	add := func(body []byte) { out = append(binary.AppendUvarint(out, uint64(len(body))), body...) }
	for i := range functions {
		f := &reader{b: r.bytes(int(r.number()))}
		groups, from := f.number(), f.at
		m := marker{w: w, address: w.params[w.functions[i]]}
		for range groups { // its variables
			m.address += f.number()
			f.byte()
		}
		body = append(binary.AppendUvarint(body[:0], groups+uint64(len(m.variables())/2)), f.b[from:f.at]...)
		body = append(body, m.variables()...)
		done := f.at
		for f.at < len(f.b) && f.err == nil {
			from := f.at
			switch op := f.instruction(); op {
			case opLoop:
				body = append(append(body, f.b[done:f.at]...), round...)
				done = f.at
			case opCopy, opFill:
				callee := fill
				if f.b[from+1] == 10 {
					callee = copied
				}
				body = append(append(append(body, f.b[done:from]...), opCall), callee...)
				done = f.at
			default:
				if op >= opStore && op <= opLastStore {
					body = m.store(append(body, f.b[done:from]...), f.b[from:f.at])
					done = f.at
				}
			}
		}
		if f.err != nil {
			return f.err
		}
		add(append(body, f.b[done:]...))
	}
	arguments := []byte{opLocal, 0, opLocal, 1, opLocal, 2}
	add(slices.Concat([]byte{0, opConst}, rounds, []byte{opSetGlobal}, w.left, []byte{opConst, 0, opConst, 0, opCall}, w.asks, []byte{opIf, 0x40, 0x00, opEnd, opEnd}))
	add(slices.Concat([]byte{0}, size, arguments, []byte{0xFC, 11, 0}, w.markRange(), []byte{opEnd}))
	add(slices.Concat([]byte{0}, size, arguments, []byte{0xFC, 10, 0, 0}, w.markRange(), []byte{opEnd}))
	w.section(sectionCode, out)
	return r.err
}

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

func (r *reader) rest() []byte { return r.bytes(len(r.b) - r.at) }

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

// What instruction returns for memory.copy and memory.fill, which have two bytes.
const opCopy, opFill = 0xFC, 0xFD

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
	case op >= 0x02 && op <= 0x04, op == 0x0C, op == 0x0D, op == opCall, op >= 0x20 && op <= 0x26, op >= 0x3F && op <= 0x42, op == 0xD0, op == 0xD2:
		operands = 1
	case op == 0x11, op >= 0x28 && op <= 0x3E: // call_indirect, loads and stores
		operands = 2
	case op == 0xFC:
		switch code := r.number(); {
		case code <= 7: // conversions
			op = 0
		case code == 10:
			operands = 2
		case code == 11:
			operands, op = 1, opFill
		default: // tables and passive data
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
