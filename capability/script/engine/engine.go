// Package engine runs handlers that were written at run time, in TypeScript, JavaScript or
// WebAssembly, apart from the process and from each other.
//
//	e := engine.New(&engine.Options{Cache: dir})
//	p, err := e.Compile(ctx, engine.Source{Name: "Math.Add", Code: code})
//	out, err := e.Run(ctx, p, input, host, engine.Limits{})
//
// JavaScript runs in QuickJS, which is a WebAssembly module here: an error in its memory can't
// reach the process. Code sees its input and what [Host] offers, and nothing else of the machine.
// Each call begins with the memory as it was when the code had just been loaded.
//
// # Goroutines
//
//   - Translating a source, 2 at a time: the registration starts it, and it ends when esbuild has returned, also if the
//     caller has not waited.
//   - A nested call of code, 16 per call: kernos.call starts it. It ends when the call has its outcome, or with the
//     context of the code.
package engine

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"kernos/internal/recent"
	"kernos/message"
)

// Options describe how much an engine may use. The zero value means the defaults.
type Options struct {
	// Cache is a directory for QuickJS as compiled for this machine, which takes a third of a
	// second. Without one it is compiled once in each process.
	Cache string

	// Engines is how many calls may run or wait at once; further ones wait. The default is 256.
	Engines int

	// Idle is how many instances of QuickJS are kept for the next calls; each takes about 2 MB.
	// The default is twice the number of processors.
	Idle int

	// Memory is how many bytes all instances may have together. The default is 1 GB.
	Memory int64
}

// An Engine runs programs. It costs nothing until it is first used, and is safe for concurrent use.
type Engine struct {
	options     Options
	closing     chan struct{} // closed by Close
	active      chan struct{} // one element for each call of JavaScript that runs or waits
	modular     chan struct{} // one element for each call of a WebAssembly handler, whose stack isn't counted and may have 100 MB
	translating chan struct{} // one element for each source that is being translated
	budget      atomic.Int64  // the unused part of options.Memory

	programs atomic.Uint64          // how many there have been
	modules  *recent.Cache[*module] // WebAssembly handlers that ran lately
	hot      *recent.Cache[*delta]  // programs that ran lately, ready to run again

	mu       sync.Mutex
	runtime  wazero.Runtime // nil until first use
	compiled wazero.CompiledModule
	marks    uint32 // the address of an instance's marks
	began    time.Time
	clean    *image
	idle     []*vm
	guests   wazero.Runtime // runs WebAssembly handlers; nil until first use
}

// hotBytes is how much programs may take that are kept ready. One that isn't is loaded again by its
// next call, which takes a millisecond.
const hotBytes = 64 << 20

// yields is how often a call lets others run before it makes an instance.
const yields = 8

// New returns an engine with these options, which may be nil.
func New(opts *Options) *Engine {
	e := &Engine{closing: make(chan struct{}), hot: recent.New[*delta](recent.Limits{Values: 1 << 14, Bytes: hotBytes, Each: hotBytes / 8})}
	e.modules = recent.New[*module](recent.Limits{Values: 1 << 10, Bytes: hotBytes, Each: hotBytes})
	if opts != nil {
		e.options = *opts
	}
	if e.options.Engines <= 0 {
		e.options.Engines = 256
	}
	if e.options.Idle <= 0 {
		e.options.Idle = 2 * runtime.GOMAXPROCS(0)
	}
	if e.options.Memory <= 0 {
		e.options.Memory = 1 << 30
	}
	e.budget.Store(e.options.Memory)
	e.active = make(chan struct{}, e.options.Engines)
	e.translating = make(chan struct{}, maxTranslates)
	e.modular = make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	return e
}

// Close waits for calls that are running, and frees what the engine holds. It is called once.
func (e *Engine) Close() error {
	close(e.closing)
	for _, running := range []chan struct{}{e.active, e.modular} {
		for range cap(running) {
			running <- struct{}{}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = nil
	for _, r := range []wazero.Runtime{e.runtime, e.guests} {
		if r != nil {
			if err := r.Close(context.Background()); err != nil {
				return err
			}
		}
	}
	return nil
}

// acquire returns an instance for one call, with its memory as it was when d was taken; a nil d
// stands for a clean instance. It waits while too many calls run.
func (e *Engine) acquire(ctx context.Context, d *delta) (*vm, error) {
	if err := e.enter(ctx, e.active); err != nil {
		return nil, err
	}
	var v *vm
	ready := false
	defer func() { // also after a panic: a place that isn't given back is missing for as long as the engine runs
		if ready {
			return
		}
		if v != nil {
			_ = v.module.Close(context.Background())
		}
		e.leave(e.active)
	}()
	v, err := e.take(len(e.active) > e.options.Idle)
	if err != nil {
		return nil, err
	}
	if ready = v.rewind(d); !ready {
		return nil, errNoMemory
	}
	return v, nil
}

// enter waits until one more call may run; leave is called when it has ended.
func (e *Engine) enter(ctx context.Context, running chan struct{}) error {
	select {
	case running <- struct{}{}:
		return nil
	case <-e.closing:
		return message.Errorf(503, "The kernel is stopping")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) leave(running chan struct{}) { <-running }

// take returns an idle instance, or a new one. On a busy machine, calls that were preempted have the instances; if many
// calls run, take lets those calls continue first, since a new instance costs more than a call.
func (e *Engine) take(many bool) (*vm, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := 0; ; i++ {
		if n := len(e.idle); n > 0 {
			v := e.idle[n-1]
			e.idle = e.idle[:n-1]
			return v, nil
		}
		if !many || i == yields {
			break
		}
		e.mu.Unlock()
		runtime.Gosched()
		e.mu.Lock()
	}
	if e.runtime == nil {
		if err := e.start(); err != nil {
			return nil, err
		}
	}
	return e.newVM(e.clean)
}

// start compiles QuickJS and makes the image that every instance begins with.
func (e *Engine) start() error {
	ctx := context.Background()
	cache, err := e.cache()
	if err != nil {
		return err
	}
	r, wasm, marks, err := newRuntime(ctx, cache)
	if err != nil {
		return fmt.Errorf("prepare the script engine: %w", err)
	}
	compiled, err := e.compile(r, wasm)
	if err != nil {
		return fmt.Errorf("compile the script engine: %w", err)
	}
	e.runtime, e.compiled, e.marks, e.began = r, compiled, marks, time.Now()
	v, err := e.newVM(nil)
	if err == nil {
		e.clean, err = v.boot()
	}
	if err != nil {
		e.runtime = nil
		_ = r.Close(ctx)
		return fmt.Errorf("start the script engine: %w", err)
	}
	e.idle = append(e.idle, v)
	return nil
}

// cache returns where compiled modules are kept.
func (e *Engine) cache() (wazero.CompilationCache, error) {
	if e.options.Cache == "" {
		return wazero.NewCompilationCache(), nil
	}
	if err := os.MkdirAll(e.options.Cache, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for compiled modules: %w", err)
	}
	c, err := wazero.NewCompilationCacheWithDir(e.options.Cache)
	if err != nil {
		return nil, fmt.Errorf("open the directory of compiled modules: %w", err)
	}
	return c, nil
}

// compile compiles a module, or finds it in the cache. If a valid module fails, the cache is what failed and is
// removed: a power cut may have spoiled it.
func (e *Engine) compile(r wazero.Runtime, wasm []byte) (wazero.CompiledModule, error) {
	ctx := context.Background()
	m, err := r.CompileModule(ctx, wasm)
	if err == nil || e.options.Cache == "" {
		return m, err
	}
	check := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(maxMemory>>16))
	defer func() { _ = check.Close(ctx) }()
	if _, invalid := check.CompileModule(ctx, wasm); invalid != nil {
		return nil, err
	}
	if err := os.RemoveAll(e.options.Cache); err != nil {
		return nil, err
	}
	if _, err := e.cache(); err != nil { // makes the directory
		return nil, err
	}
	return r.CompileModule(ctx, wasm)
}

// release takes an instance back.
func (e *Engine) release(v *vm) {
	defer e.leave(e.active)
	e.mu.Lock()
	keep := v.err == nil && len(e.idle) < e.options.Idle && v.memory.Size() == v.image.size && !v.spoiled()
	if keep {
		e.idle = append(e.idle, v)
	}
	e.mu.Unlock()
	if !keep {
		_ = v.module.Close(context.Background())
	}
}
