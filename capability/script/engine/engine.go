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
package engine

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"

	"kernos/message"
)

// Options say how much an engine may use. The zero value means the defaults.
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
	options Options
	closing chan struct{} // closed by Close
	active  chan struct{} // one for each call that runs or waits
	budget  atomic.Int64  // of options.Memory, what is left

	mu       sync.Mutex
	runtime  wazero.Runtime // nil until first use
	compiled wazero.CompiledModule
	clean    *image
	idle     []*vm
}

// New returns an engine with these options, which may be nil.
func New(opts *Options) *Engine {
	e := &Engine{closing: make(chan struct{})}
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
	return e
}

// Close waits for calls that are running, and frees what the engine holds. It is called once.
func (e *Engine) Close() error {
	close(e.closing)
	for range cap(e.active) {
		e.active <- struct{}{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = nil
	if e.runtime == nil {
		return nil
	}
	return e.runtime.Close(context.Background())
}

// acquire returns an instance for one call, with its memory as it was when d was taken; a nil d
// stands for a clean instance. It waits while too many calls run.
func (e *Engine) acquire(ctx context.Context, d *delta) (*vm, error) {
	select {
	case e.active <- struct{}{}:
	case <-e.closing:
		return nil, message.Errorf(503, "The kernel is stopping")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v, err := e.take()
	if err == nil && !v.rewind(d) {
		err = message.Errorf(503, "There is no memory left to run a script: try again later")
	}
	if err != nil {
		<-e.active
		return nil, err
	}
	return v, nil
}

func (e *Engine) take() (*vm, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.idle); n > 0 {
		v := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return v, nil
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
	cache := wazero.NewCompilationCache()
	if e.options.Cache != "" {
		if err := os.MkdirAll(e.options.Cache, 0o700); err != nil {
			return fmt.Errorf("make the directory for the compiled script engine: %w", err)
		}
		var err error
		if cache, err = wazero.NewCompilationCacheWithDir(e.options.Cache); err != nil {
			return fmt.Errorf("open the compiled script engine: %w", err)
		}
	}
	r, compiled, err := newRuntime(ctx, cache)
	if err != nil {
		return fmt.Errorf("compile the script engine: %w", err)
	}
	e.runtime, e.compiled = r, compiled
	v, err := e.newVM(nil)
	if err == nil {
		e.clean, err = v.boot()
	}
	if err != nil {
		e.runtime = nil
		return fmt.Errorf("start the script engine: %w", err)
	}
	e.idle = append(e.idle, v)
	return nil
}

// release takes an instance back.
func (e *Engine) release(v *vm) {
	<-e.active
	v.run = nil
	e.mu.Lock()
	keep := v.err == nil && len(e.idle) < e.options.Idle && v.memory.Size() == v.image.size
	if keep {
		e.idle = append(e.idle, v)
	}
	e.mu.Unlock()
	if !keep {
		_ = v.module.Close(context.Background())
	}
}
