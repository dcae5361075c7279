package engine

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"kernos/internal/jsonscan"
)

//go:embed quickjs/quickjs.wasm.zst
var quickjs []byte

//go:embed js/kernos.js js/web.js
var prelude embed.FS

const (
	maxMemory = 256 << 20 // bytes of memory of one instance
	stackSize = 512 << 10 // bytes of the JavaScript stack; QuickJS was linked with 1 MB

	gcThreshold = 4 << 20 // bytes of objects before the first collection of garbage; most calls end earlier
)

// A value is the address of a JavaScript value in the memory of a vm. Zero stands for none.
type value uint32

// A vm is one instance of QuickJS. It belongs to one call at a time.
type vm struct {
	module api.Module
	memory api.Memory
	linear *linear
	ctx    context.Context // leads host functions to this vm
	image  *image          // the memory of a clean instance
	marks  uint32          // the address of the marks of what was written
	began  time.Time       // 0 on the monotonic clock, the same for all instances

	program *delta // the state that the memory was rewound to

	stackPointer api.MutableGlobal
	scanner      jsonscan.Scanner // checks what QuickJS gives out

	run *run  // the call that is running
	err error // why the instance can no longer be used

	// Go calls these functions while QuickJS isn't running.
	eval, invoke, pending, job, exception, limit function

	// Go calls these functions also from within a host function. None of them runs JavaScript.
	malloc, free, newString, newBuffer, newNumber, getString, freeString, isString, isException, isBuffer, getBuffer, isNumber, getNumber, dup, drop, throw, newError function
}

// A function is a function that QuickJS exports. All take and return numbers of 32 bits unless their name indicates otherwise.
type function struct {
	vm *vm
	f  api.Function
}

// call returns 0 if the instance has failed; vm.err reports why.
func (f function) call(args ...uint64) uint32 { return uint32(f.wide(args...)) }

func (f function) wide(args ...uint64) uint64 {
	if f.vm.err != nil {
		return 0
	}
	var stack [8]uint64
	copy(stack[:], args)
	if err := f.f.CallWithStack(f.vm.ctx, stack[:]); err != nil {
		f.vm.err = err
		return 0
	}
	return stack[0]
}

type vmKey struct{}

// newRuntime returns QuickJS with the address of its marks, and a runtime with all that QuickJS imports.
func newRuntime(ctx context.Context, cache wazero.CompilationCache) (_ wazero.Runtime, wasm []byte, marks uint32, err error) {
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(maxMemory>>16).WithCompilationCache(cache))
	for name, functions := range imports {
		module := r.NewHostModuleBuilder(name)
		for name, i := range functions {
			module.NewFunctionBuilder().WithGoModuleFunction(i.f, numbers(i.params), numbers(i.results)).Export(name)
		}
		if _, err := module.Instantiate(ctx); err != nil {
			return nil, nil, 0, err
		}
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, nil, 0, err
	}
	defer d.Close()
	if wasm, err = d.DecodeAll(quickjs, nil); err != nil {
		return nil, nil, 0, err
	}
	wasm, marks, err = instrument(wasm, "host_module_normalize")
	return r, wasm, marks, err
}

// numbers returns the types of numbers of 32 bits, i, and of 64 bits, I.
func numbers(letters string) []api.ValueType {
	types := make([]api.ValueType, len(letters))
	for i, c := range letters {
		types[i] = api.ValueTypeI32
		if c == 'I' {
			types[i] = api.ValueTypeI64
		}
	}
	return types
}

// caller returns the instance that calls a host function.
func caller(ctx context.Context) *vm { return ctx.Value(vmKey{}).(*vm) }

type hostFunction struct {
	params, results string
	f               api.GoModuleFunc
}

// imports are the functions that QuickJS calls, by module. Those of WASI are here because what they write must be marked.
var imports = map[string]map[string]hostFunction{
	"env": {
		"host_call": {"iiiii", "i", func(ctx context.Context, _ api.Module, stack []uint64) {
			v := caller(ctx)
			name, ok := v.memory.Read(uint32(stack[0]), uint32(stack[1]))
			if !ok || v.run == nil {
				stack[0] = v.raise("a host function is called out of turn")
				return
			}
			stack[0] = v.hostCall(string(name), arguments{v, uint32(stack[4]), uint32(stack[3])})
		}},
		"host_interrupt":           {"", "i", reports((*run).stopped)},
		"host_get_timezone_offset": {"ii", "i", returns(0)}, // UTC
		"host_promise_rejection":   {"iii", "", func(context.Context, api.Module, []uint64) {}},
		"host_module_normalize":    {"ii", "i", reports((*run).overdue)}, // QuickJS doesn't use it; see instrument
		"host_module_load":         {"ii", "i", returns(0)},
	},
	"wasi_snapshot_preview1": {
		"clock_time_get": {"iIi", "i", func(ctx context.Context, _ api.Module, stack []uint64) {
			v, now := caller(ctx), time.Now().UnixNano()
			if uint32(stack[0]) != 0 { // the monotonic clock
				now = int64(time.Since(v.began)) + 1
			}
			stack[0] = errno(v.write(uint32(stack[2]), binary.LittleEndian.AppendUint64(nil, uint64(now))))
		}},
		"random_get": {"ii", "i", func(ctx context.Context, _ api.Module, stack []uint64) {
			b := make([]byte, min(uint32(stack[1]), 1<<16))
			_, _ = rand.Read(b) // never fails
			stack[0] = errno(caller(ctx).write(uint32(stack[0]), b) && uint32(stack[1]) == uint32(len(b)))
		}},
		"fd_close":      {"i", "i", returns(badFile)},
		"fd_fdstat_get": {"ii", "i", returns(badFile)},
		"fd_seek":       {"iIii", "i", returns(badFile)},
		"fd_write":      {"iiii", "i", returns(badFile)},
	},
}

const badFile, badAddress = 8, 21 // errors of WASI

func returns(n uint64) api.GoModuleFunc {
	return func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = n }
}

// reports returns 1 if something is true of the run, and 0 without a run.
func reports(is func(*run) bool) api.GoModuleFunc {
	return func(ctx context.Context, _ api.Module, stack []uint64) {
		stack[0] = 0
		if v := caller(ctx); v.run != nil && is(v.run) {
			stack[0] = 1
		}
	}
}

func errno(ok bool) uint64 {
	if ok {
		return 0
	}
	return badAddress
}

// newVM makes an instance whose memory is im's, or as the linker left it.
func (e *Engine) newVM(im *image) (*vm, error) {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	l := &linear{budget: &e.budget, max: maxMemory}
	m, err := instantiate(context.Background(), e.runtime, e.compiled, config, l)
	if err != nil {
		return nil, err
	}
	v := &vm{module: m, memory: m.Memory(), linear: l, image: im, marks: e.marks, began: e.began, program: &delta{}}
	if im != nil { // all of it must be restored
		v.mark(stackEnd, e.marks-stackEnd)
		v.mark(e.marks+marksSize, im.size-e.marks-marksSize)
	}
	var ok bool
	if v.stackPointer, ok = m.ExportedGlobal("__stack_pointer").(api.MutableGlobal); !ok {
		return nil, errors.New("QuickJS doesn't export its stack pointer")
	}
	v.ctx = context.WithValue(context.Background(), vmKey{}, v)
	for name, f := range map[string]*function{
		"qjs_eval": &v.eval, "qjs_call": &v.invoke, "qjs_is_job_pending": &v.pending, "qjs_execute_pending_job": &v.job,
		"qjs_get_exception": &v.exception, "qjs_set_memory_limit": &v.limit,
		"wasm_malloc": &v.malloc, "wasm_free": &v.free, "qjs_new_string": &v.newString, "qjs_new_array_buffer": &v.newBuffer,
		"qjs_new_number": &v.newNumber, "qjs_get_string_len": &v.getString, "qjs_free_cstring": &v.freeString, "qjs_is_string": &v.isString,
		"qjs_is_exception": &v.isException, "qjs_is_array_buffer": &v.isBuffer, "qjs_get_array_buffer": &v.getBuffer,
		"qjs_get_float64": &v.getNumber, "qjs_is_number": &v.isNumber, "qjs_dup_value": &v.dup, "qjs_free_value": &v.drop, "qjs_throw": &v.throw, "qjs_new_error": &v.newError,
	} {
		*f = v.exported(name)
	}
	return v, nil
}

func (v *vm) exported(name string) function { return function{v, v.module.ExportedFunction(name)} }

// hostFunctions are the names of what the prelude gets. See vm.hostCall.
var hostFunctions = []string{"call", "cancel", "done", "emit", "fail", "log", "progress", "random",
	"randomBytes", "digest", "encode", "decode", "parseURL", "changeURL"}

// boot starts QuickJS, loads the prelude, and returns the image of a clean instance.
func (v *vm) boot() (*image, error) {
	v.exported("_initialize").call()
	if v.exported("qjs_init").call() != 0 {
		return nil, errors.New("QuickJS has no memory to begin with")
	}
	v.exported("qjs_set_max_stack_size").call(stackSize)
	v.exported("qjs_set_interrupt_handler").call(1)
	set, get := v.exported("qjs_set_prop_string"), v.exported("qjs_get_prop_string")
	host := v.exported("qjs_new_object").call()
	for _, name := range hostFunctions {
		p := v.text(name)
		f := v.exported("qjs_new_host_function").call(uint64(p), uint64(len(name)), 0)
		set.call(uint64(host), uint64(p), uint64(f))
	}
	im := &image{undefined: value(v.exported("qjs_get_undefined").call())}
	im.arguments = v.malloc.call(4 * maxArguments)
	v.image = im
	kernos, err := prelude.ReadFile("js/kernos.js")
	if err != nil {
		return nil, err
	}
	web, err := prelude.ReadFile("js/web.js")
	if err != nil {
		return nil, err
	}
	f := v.evaluate("(function (host) {'use strict'; "+string(kernos)+string(web)+"return { load, run, settle, tick, explain } })", "kernos", 0)
	hooks, err := v.try(f, value(host))
	if err != nil {
		return nil, fmt.Errorf("the prelude: %w", err)
	}
	for name, hook := range map[string]*value{"load": &im.load, "run": &im.run, "settle": &im.settle, "tick": &im.tick, "explain": &im.explain} {
		*hook = value(get.call(uint64(hooks), uint64(v.text(name))))
	}
	v.exported("qjs_run_gc").call()
	v.exported("qjs_set_gc_threshold").call(gcThreshold)
	v.free.call(uint64(v.malloc.call(spareMemory)))
	im.keep(v)
	return im, v.err
}
