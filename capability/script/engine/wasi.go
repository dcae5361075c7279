package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// maxModule is how many bytes a WebAssembly module may have. To compile one takes a second per megabyte.
const maxModule = 4 << 20

// A module is a compiled WebAssembly module. It is freed when nothing refers to it.
type module struct{ compiled wazero.CompiledModule }

// module returns the compiled module of a program.
func (e *Engine) module(p *Program) (*module, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := e.modules.Get(p.key); ok {
		return m, nil
	}
	fault := func(format string, args ...any) error {
		return &CodeError{Name: p.Source.Name, Message: fmt.Sprintf(format, args...)}
	}
	code, err := base64.StdEncoding.DecodeString(p.Source.Code)
	switch {
	case err != nil:
		return nil, fault("the code of a WebAssembly handler must be base64: %v", err)
	case len(code) > maxModule:
		return nil, fault("the module has %d bytes; at most %d are taken", len(code), maxModule)
	}
	r, err := e.wasi()
	if err != nil {
		return nil, err
	}
	compiled, err := e.compile(r, code)
	if err != nil {
		return nil, fault("%v", err)
	}
	m := &module{compiled}
	runtime.AddCleanup(m, func(c wazero.CompiledModule) { _ = c.Close(context.Background()) }, compiled)
	for _, f := range compiled.ImportedFunctions() {
		if from, name, _ := f.Import(); from != wasi_snapshot_preview1.ModuleName {
			return nil, fault("the module imports %s from %s; only WASI (%s) can be imported", name, from, wasi_snapshot_preview1.ModuleName)
		}
	}
	if _, ok := compiled.ExportedFunctions()["_start"]; !ok {
		return nil, fault("the module doesn't export _start; build it as a WASI command")
	}
	e.modules.Put(p.key, m, 8*len(code))
	return m, nil
}

// wasi returns the runtime of WebAssembly handlers. It ends a module with its context, which makes the module slower.
func (e *Engine) wasi() (wazero.Runtime, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guests != nil {
		return e.guests, nil
	}
	cache, err := e.cache()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(maxMemory>>16).WithCompilationCache(cache))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, err
	}
	e.guests = r
	return r, nil
}

// runModule runs a WebAssembly handler: its input is in, its output what it writes, and its log
// what it writes to its standard error. Nothing else of WASI leads anywhere.
func (e *Engine) runModule(ctx context.Context, p *Program, in json.RawMessage, host Host, limits Limits) (json.RawMessage, error) {
	m, err := e.module(p)
	if err != nil {
		return nil, err
	}
	if err := e.enter(ctx, e.modular); err != nil {
		return nil, err
	}
	defer e.leave(e.modular)
	r := newRun(ctx, nil, p, host, limits)
	defer r.end()
	l := &linear{budget: &e.budget, max: uint64(min(r.limits.Memory, maxMemory))}
	var out bytes.Buffer
	log := &lines{run: r}
	config := wazero.NewModuleConfig().WithName("").WithArgs(p.Source.Name).
		WithStdin(bytes.NewReader(in)).WithStderr(log).
		WithStdout(writer(func(b []byte) (int, error) {
			if !r.write(len(b)) {
				r.cancel()
				return 0, r.stop
			}
			return out.Write(b)
		})).
		WithSysWalltime().WithSysNanotime().WithRandSource(rand.Reader).
		WithNanosleep(func(ns int64) {
			select {
			case <-r.ctx.Done():
			case <-time.After(time.Duration(ns)):
			}
		})
	instance, err := instantiate(r.ctx, e.guests, m.compiled, config, l)
	if instance != nil {
		_ = instance.Close(context.Background())
	}
	runtime.KeepAlive(m)
	log.flush()
	exit, exited := errors.AsType[*sys.ExitError](err)
	switch {
	case r.stop != nil:
		return nil, r.stop
	case r.ctx.Err() != nil:
		return nil, r.overtime()
	case err != nil && l.refused:
		return nil, r.tooMuchMemory(l)
	case exited && exit.ExitCode() != 0:
		return nil, &CodeError{Name: p.Source.Name, Message: fmt.Sprintf("the module ended with status %d", exit.ExitCode()), Text: log.last}
	case err != nil && !exited:
		return nil, &CodeError{Name: p.Source.Name, Message: trap(err)}
	}
	var scanner jsonscan.Scanner
	if err := scanner.Text(out.Bytes()); err != nil {
		return nil, message.Errorf(500, "%s must write JSON to its standard output: %v", p.Source.Name, err)
	}
	return out.Bytes(), nil
}

// trap returns why a module failed. wazero wraps the error of the module's start function in one that names the
// function, and appends the stack to the text, line by line.
func trap(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// lines gives each line that is written to the host's log.
type lines struct {
	run  *run
	rest []byte
	last string // the last line
}

func (l *lines) Write(b []byte) (int, error) {
	if !l.run.log(len(b)) {
		l.run.cancel()
		return 0, l.run.stop
	}
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.rest = rest
		l.line(line)
	}
}

func (l *lines) line(b []byte) {
	l.last = strings.ToValidUTF8(string(b), "\uFFFD")
	if l.run.host != nil {
		l.run.host.Log("info", l.last)
	}
}

func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.line(l.rest)
	}
}
