package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"

	"kernos/message"
)

const (
	evalModule   = 1 // a flag of qjs_eval: the code is an ES module
	maxArguments = 4 // arguments of a function that Go calls

	eventCost = 64 // bytes of output that an event counts as, beside its data
)

// text puts a string into QuickJS's memory, with a zero at its end, and returns its address.
func (v *vm) text(s string) uint32 {
	p := v.malloc.call(uint64(len(s) + 1))
	if p == 0 || !v.write(p, append([]byte(s), 0)) {
		return 0
	}
	return p
}

// evaluate runs code and returns its value, which may be an exception.
func (v *vm) evaluate(code, name string, flags uint64) value {
	c, n := v.text(code), v.text(name)
	out := v.eval.call(uint64(c), uint64(len(code)), uint64(n), flags)
	v.free.call(uint64(c))
	v.free.call(uint64(n))
	return value(out)
}

// try calls a JavaScript function, and frees the arguments.
func (v *vm) try(f value, args ...value) (value, error) {
	for i, a := range args {
		if a == 0 {
			return 0, v.full()
		}
		if v.isException.call(uint64(a)) != 0 {
			return 0, v.thrown()
		}
		v.write(v.image.arguments+4*uint32(i), binary.LittleEndian.AppendUint32(nil, uint32(a)))
	}
	out := value(v.invoke.call(uint64(f), uint64(v.image.undefined), uint64(len(args)), uint64(v.image.arguments)))
	for _, a := range args {
		v.drop.call(uint64(a))
	}
	if v.err == nil && v.isException.call(uint64(out)) != 0 {
		return 0, v.thrown()
	}
	return out, v.err
}

func (v *vm) full() error {
	if v.err != nil || v.run == nil {
		return v.err
	}
	return v.run.tooMuchMemory(v.linear)
}

// string makes a JavaScript string of UTF-8.
func (v *vm) string(s []byte) value { return v.from(s, v.newString) }

// buffer makes an ArrayBuffer.
func (v *vm) buffer(b []byte) value { return v.from(b, v.newBuffer) }

// from makes a value of bytes, with a function that takes their address and their number.
func (v *vm) from(b []byte, create function) value {
	p := v.malloc.call(uint64(len(b) + 1))
	if p == 0 || !v.write(p, b) {
		return 0
	}
	out := create.call(uint64(p), uint64(len(b)))
	v.free.call(uint64(p))
	return value(out)
}

func (v *vm) float(f float64) value { return value(v.newNumber.call(api.EncodeF64(f))) }

func (v *vm) number(x value) float64 { return api.DecodeF64(v.getNumber.wide(uint64(x))) }

// take returns the text of a string and frees it; nil if it isn't a string.
func (v *vm) take(x value) []byte {
	s := v.read(x)
	v.drop.call(uint64(x))
	return s
}

// read returns the text of a string, as UTF-8; nil if it isn't a string. Only of a string: to make
// one of another value would run JavaScript.
func (v *vm) read(x value) []byte {
	if v.isString.call(uint64(x)) == 0 {
		return nil
	}
	p, b := v.content(x, v.getString)
	if p == 0 || b == nil {
		return nil
	}
	v.freeString.call(uint64(p))
	return wellFormed(b)
}

// content returns the address of what a value holds and a copy of it, or nil if it isn't there. The
// function get takes a value and an address for the length.
func (v *vm) content(x value, get function) (p uint32, b []byte) {
	length := v.malloc.call(4)
	p = get.call(uint64(x), uint64(length))
	n, _ := v.memory.ReadUint32Le(length)
	v.free.call(uint64(length))
	b, _ = v.memory.Read(p, n)
	return p, bytes.Clone(b)
}

// wellFormed replaces halves of surrogate pairs, which QuickJS writes with three bytes.
func wellFormed(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	for i := 0; i+2 < len(b); i++ {
		if b[i] == 0xED && b[i+1] >= 0xA0 {
			copy(b[i:], "\uFFFD")
		}
	}
	return b
}

// raise throws an error in QuickJS; a host function returns its result.
func (v *vm) raise(text string) uint64 {
	e := v.newError.call()
	set := v.exported("qjs_set_prop_string")
	set.call(uint64(e), uint64(v.text("message")), uint64(v.string([]byte(text))))
	v.throw.call(uint64(e))
	return 0
}

// arguments are the arguments of a host function.
type arguments struct {
	vm   *vm
	at   uint32
	size uint32
}

func (a arguments) value(i uint32) value {
	if i >= a.size {
		return a.vm.image.undefined
	}
	b, ok := a.vm.memory.Read(a.at+4*i, 4)
	if !ok {
		return a.vm.image.undefined
	}
	return value(binary.LittleEndian.Uint32(b))
}

func (a arguments) text(i uint32) string { return string(a.vm.read(a.value(i))) }
func (a arguments) truth(i uint32) bool  { return a.number(i) == 1 }

// number returns 0 for what isn't a number: to make one of it would run JavaScript.
func (a arguments) number(i uint32) float64 {
	if x := a.value(i); a.vm.isNumber.call(uint64(x)) != 0 {
		return a.vm.number(x)
	}
	return 0
}

// json returns a string that is JSON. If it isn't, or is nested too deeply, the call ends and the result is nil.
func (a arguments) json(i uint32) json.RawMessage {
	data := paired(a.vm.read(a.value(i)))
	if err := a.vm.scanner.Text(data); err != nil && a.vm.err == nil {
		r := a.vm.run
		r.stop = message.Errorf(500, "%s returned invalid JSON: %v", r.program.Source.Name, err)
		return nil
	}
	return data
}

// paired replaces halves of surrogate pairs in JSON. JSON.stringify writes nothing else as \ud….
func paired(text []byte) []byte {
	for at := bytes.Index(text, []byte(`\ud`)); at >= 0 && at+6 <= len(text); at++ {
		if text[at] != '\\' {
			continue
		}
		if bytes.HasPrefix(text[at:], []byte(`\ud`)) && text[at+3] >= '8' {
			copy(text[at:], `\ufffd`)
		}
		at++ // what is escaped
		if at+6 > len(text) {
			break
		}
	}
	return text
}

// bytes returns a copy of an ArrayBuffer; nil if it isn't one.
func (a arguments) bytes(i uint32) []byte {
	v, x := a.vm, a.value(i)
	if v.isBuffer.call(uint64(x)) == 0 {
		return nil
	}
	_, b := v.content(x, v.getBuffer)
	return b
}

// hostCall runs one of hostFunctions. It returns the address of its result, or 0 after raise.
func (v *vm) hostCall(name string, args arguments) uint64 {
	r := v.run
	if r.stopped() {
		return v.raise("the call has ended")
	}
	if result, ok := v.hostWeb(name, args); ok {
		if result == 0 {
			result = value(v.dup.call(uint64(v.image.undefined)))
		}
		return uint64(result)
	}
	switch name {
	case "done":
		if data := args.json(0); data != nil && r.write(len(data)) {
			r.output, r.done = data, true
		}
	case "fail":
		r.failure = r.explained(v.read(args.value(0)))
	case "random":
		return uint64(v.float(rand.Float64()))
	case "log":
		if text := args.text(1); r.log(len(text)+1) && r.host != nil {
			r.host.Log(args.text(0), text)
		}
	case "call":
		typ, data := args.text(1), args.json(2)
		switch r.calls++; {
		case data == nil:
		case r.host == nil:
			return v.raise("syscalls can be called in the handler only, not while the code is loaded")
		case r.calls > r.limits.Calls:
			r.stop = message.Errorf(429, "%s made more than its %d nested calls", r.program.Source.Name, r.limits.Calls)
		case int64(len(data)) > r.limits.Output:
			r.stop = message.Errorf(413, "%s calls %s with more than %d KB of data", r.program.Source.Name, typ, r.limits.Output>>10)
		default:
			r.begin(int(args.number(0)), typ, data)
		}
	case "cancel":
		if cancel, ok := r.outstanding[int(args.number(0))]; ok {
			cancel()
			delete(r.outstanding, int(args.number(0)))
		}
	case "emit":
		typ, data := args.text(0), args.json(1)
		if r.host == nil {
			return v.raise("events can be emitted in the handler only, not while the code is loaded")
		}
		if data != nil && r.write(eventCost+len(data)) {
			if err := r.host.Emit(r.ctx, typ, data); err != nil {
				r.stop = err
			}
		}
	case "progress":
		if note := args.text(0); r.host != nil && r.write(eventCost+len(note)) {
			if err := r.host.Progress(r.ctx, note, args.number(1)); err != nil {
				r.stop = err
			}
		}
	}
	if r.stop != nil {
		return v.raise("the call has ended")
	}
	return uint64(v.dup.call(uint64(v.image.undefined)))
}

// write counts output, and ends the call if it is too much.
func (r *run) write(n int) bool {
	if r.written += int64(n); r.written > r.limits.Output {
		r.stop = message.Errorf(413, "%s wrote more than its %d KB of output", r.program.Source.Name, r.limits.Output>>10)
	}
	return r.stop == nil
}

// log counts log, and ends the call if it is too much.
func (r *run) log(n int) bool {
	if r.logged += int64(n); r.logged > r.limits.Log {
		r.stop = message.Errorf(413, "%s wrote more than its %d KB of log", r.program.Source.Name, r.limits.Log>>10)
	}
	return r.stop == nil
}
