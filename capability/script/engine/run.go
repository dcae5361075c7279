package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"kernos/message"
)

// A Host is what a handler can reach. Call runs on goroutines of its own, and may still run when
// Run has returned, with a context that has ended; all other methods are called one after
// the other.
type Host interface {
	// Call makes a nested call and returns the data of its reply.
	Call(ctx context.Context, typ string, data json.RawMessage) (json.RawMessage, error)
	// Emit takes an event. The items of a generator have no type.
	Emit(ctx context.Context, typ string, data json.RawMessage) error
	// Progress takes how far the call is, from 0 to 1; -1 stands for unknown.
	Progress(ctx context.Context, note string, fraction float64) error
	// Log takes a line of console. The level is debug, info, warn or error.
	Log(level, text string)
}

// Limits bound one call. A zero stands for its default.
type Limits struct {
	Time   time.Duration // time from begin to end: 5 s
	Memory int64         // bytes of QuickJS's heap, or of the memory of a WebAssembly module: 64 MB
	Output int64         // bytes of the reply and the events together, and of the data of each nested call: 1 MB
	Log    int64         // bytes of console: 64 KB
	Calls  int           // nested calls: 1,000
}

func (l Limits) withDefaults() Limits {
	or := func(n *int64, def int64) {
		if *n <= 0 {
			*n = def
		}
	}
	if l.Time <= 0 {
		l.Time = 5 * time.Second
	}
	or(&l.Memory, 64<<20)
	or(&l.Output, 1<<20)
	or(&l.Log, 64<<10)
	if l.Calls <= 0 {
		l.Calls = 1000
	}
	return l
}

// A run is one call of a program.
type run struct {
	caller  context.Context // the context that Run got
	ctx     context.Context // the context with the time limit
	cancel  context.CancelFunc
	vm      *vm // nil for a WebAssembly handler
	program *Program
	host    Host // nil while code is loaded
	limits  Limits

	stop        error     // why the call ends before its handler does
	late        time.Time // since when the call should have ended
	done        bool
	output      json.RawMessage
	failure     error
	written     int64 // bytes written, of limits.Output
	logged      int64
	calls       int
	outstanding map[int]context.CancelFunc // nested calls by their number
	outcomes    chan outcome
}

// An outcome is that of a nested call.
type outcome struct {
	id   int
	data json.RawMessage
	err  error
}

func newRun(ctx context.Context, v *vm, p *Program, host Host, limits Limits) *run {
	r := &run{vm: v, program: p, host: host, limits: limits.withDefaults(), outcomes: make(chan outcome)}
	r.caller = ctx
	r.ctx, r.cancel = context.WithTimeout(ctx, r.limits.Time)
	if v != nil {
		v.run = r
		v.limit.call(uint64(min(r.limits.Memory, maxMemory)))
	}
	return r
}

// end is the last thing that happens to a run.
func (r *run) end() {
	r.cancel()
	if r.vm != nil {
		r.vm.run = nil
	}
}

// stopped reports whether QuickJS shall stop. It asks this itself, and then stops in a way that keeps the position.
func (r *run) stopped() bool { return r.stop != nil || r.ctx.Err() != nil }

// overdue reports whether QuickJS didn't stop although it should have.
func (r *run) overdue() bool {
	if r.stopped() && r.late.IsZero() {
		r.late = time.Now()
	}
	return !r.late.IsZero() && time.Since(r.late) > haltAfter
}

// haltAfter is how long a call may take to stop by itself.
const haltAfter = 100 * time.Millisecond

// Run calls the handler of a program with in, and returns its output. The error is a *[CodeError]
// for an exception, an *[OvertimeError] for a call that took longer than limits.Time, that of ctx if it has ended, and
// otherwise a *[message.Error]: what the handler threw with a code, or
//
//	413  it used more memory, or wrote more output or more lines of log, than its limits
//	429  it made more nested calls than its limits
func (e *Engine) Run(ctx context.Context, p *Program, in json.RawMessage, host Host, limits Limits) (json.RawMessage, error) {
	if p.Source.Language == wasm {
		return e.runModule(ctx, p, in, host, limits)
	}
	d, err := e.loaded(ctx, p)
	if err != nil {
		return nil, err
	}
	v, err := e.acquire(ctx, d)
	if err != nil {
		return nil, err
	}
	defer e.release(v)
	r := newRun(ctx, v, p, host, limits)
	defer r.end()
	return r.until(v.image.run, v.string(in))
}

// An OvertimeError reports that a call took longer than its limit.
type OvertimeError struct {
	Name string
	Time time.Duration
	At   *CodeError // where the call was; nil if that isn't known
}

func (e *OvertimeError) Error() string {
	if e.At == nil {
		return e.Public().Message
	}
	return fmt.Sprintf("%s; it was in line %d: %s", e.Public().Message, e.At.Line, message.Clip(strings.TrimSpace(e.At.Text), 200))
}

// Public returns the error as callers see it that may not see the code.
func (e *OvertimeError) Public() *message.Error {
	return message.Errorf(504, "%s took longer than its %s", e.Name, e.Time)
}

// overtime returns the error of a call whose context has ended, with the place where it was if that is known.
func (r *run) overtime() error {
	if err := r.caller.Err(); err != nil {
		return err
	}
	late := &OvertimeError{Name: r.program.Source.Name, Time: r.limits.Time}
	if at, ok := errors.AsType[*CodeError](r.failure); ok && at.Line > 0 {
		late.At = at
	}
	return late
}

// loaded returns what a program changes in an instance, and loads it if that isn't at hand.
func (e *Engine) loaded(ctx context.Context, p *Program) (*delta, error) {
	if d, ok := e.hot.Get(p.key); ok {
		return d, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if d, ok := e.hot.Get(p.key); ok {
		return d, nil // another call has loaded it
	}
	if p.js == "" {
		if err := e.translate(ctx, p); err != nil {
			return nil, err
		}
	}
	d, _, err := e.load(ctx, p)
	return d, err
}

// until calls a hook of the prelude, and then runs QuickJS until the hook has an outcome.
func (r *run) until(hook, argument value) (json.RawMessage, error) {
	v := r.vm
	if _, err := v.try(hook, argument); err != nil && r.failure == nil {
		r.failure = err
	}
	for r.failure == nil && !r.done && !r.stopped() && v.err == nil {
		if v.pending.call() != 0 {
			if int32(v.job.call()) < 0 {
				r.failure = v.thrown()
			}
			continue
		}
		if err := r.wait(); err != nil {
			r.failure = err
		}
	}
	switch {
	case r.stop != nil:
		return nil, r.stop
	case r.ctx.Err() != nil && !r.done:
		return nil, r.overtime()
	case v.err != nil:
		return nil, fmt.Errorf("the script engine failed: %w", v.err)
	case r.failure != nil:
		return nil, r.failure
	}
	return r.output, nil
}

// wait waits for a timer or the outcome of a nested call.
func (r *run) wait() error {
	v := r.vm
	next, err := v.try(v.image.tick)
	if err != nil {
		return err
	}
	ms := v.number(next)
	v.drop.call(uint64(next))
	if ms == 0 || v.err != nil {
		return nil
	}
	if ms < 0 && len(r.outstanding) == 0 {
		return &CodeError{Name: r.program.Source.Name, Message: "the handler waits for a promise that nothing will settle: no call and no timer is left"}
	}
	var timer <-chan time.Time
	if ms > 0 {
		timer = time.After(time.Duration(ms * float64(time.Millisecond)))
	}
	select {
	case <-r.ctx.Done():
	case <-timer:
	case o := <-r.outcomes:
		if cancel, ok := r.outstanding[o.id]; ok {
			cancel()
			delete(r.outstanding, o.id)
			return r.settle(o)
		}
	}
	return nil
}

// settle gives QuickJS the outcome of a nested call.
func (r *run) settle(o outcome) error {
	v, code := r.vm, 0
	if o.err != nil {
		e, _ := message.ErrorOf(o.err)
		code, o.data = e.Code, e.Append(nil)
	}
	_, err := v.try(v.image.settle, v.float(float64(o.id)), v.float(float64(code)), v.string(o.data))
	return err
}

// begin starts a nested call.
func (r *run) begin(id int, typ string, data json.RawMessage) {
	ctx, cancel := context.WithCancel(r.ctx)
	if r.outstanding == nil {
		r.outstanding = map[int]context.CancelFunc{}
	}
	r.outstanding[id] = cancel
	go func() {
		reply, err := r.host.Call(ctx, typ, data)
		select {
		case r.outcomes <- outcome{id, reply, err}:
		case <-r.ctx.Done():
		}
	}()
}

// tooMuchMemory returns the error of a call that got no memory.
func (r *run) tooMuchMemory(l *linear) error {
	if l.exhausted {
		return message.Errorf(503, "%s found no memory: scripts use all that they may have together; try again later", r.program.Source.Name)
	}
	return message.Errorf(413, "%s used more than its %d MB of memory", r.program.Source.Name, r.limits.Memory>>20)
}

// thrown describes the exception that QuickJS has.
func (v *vm) thrown() error {
	e := value(v.exception.call())
	text, err := v.try(v.image.explain, e)
	if err != nil || v.err != nil {
		return &CodeError{Name: v.run.program.Source.Name, Message: "the code failed, and there was no memory left to describe why"}
	}
	return v.run.explained(v.take(text))
}

// outOfMemory reports whether an exception means that QuickJS got no memory. QuickJS has no code for it, only this
// text, which the bomb of memory in testdata/attacks.txt provokes.
func outOfMemory(name, text string) bool { return name == "InternalError" && text == "out of memory" }

// explained turns what the prelude's explain returns into an error.
func (r *run) explained(text []byte) error {
	var e exception
	if err := jsonv2.Unmarshal(text, &e); err != nil {
		return &CodeError{Name: r.program.Source.Name, Message: "the code failed in a way that can't be described"}
	}
	if outOfMemory(e.Name, e.Message) {
		return r.tooMuchMemory(r.vm.linear)
	}
	if e.coded() {
		return e.error()
	}
	fault := r.program.locate(e.text(), e.Stack)
	fault.Cause = e.Cause.error()
	return fault
}

// An exception is what was thrown, as the prelude's explain describes it.
type exception struct {
	Name    string     `json:"name"`
	Message string     `json:"message"`
	Stack   string     `json:"stack"`
	Code    float64    `json:"code"`
	Cause   *exception `json:"cause"`
}

// coded reports whether the exception has the code of an error message.
func (e *exception) coded() bool { return e.Code >= 400 && e.Code <= 599 }

// text returns the exception as JavaScript prints it.
func (e *exception) text() string {
	if e.Name == "" {
		return e.Message
	}
	return e.Name + ": " + e.Message
}

// error returns the exception and its causes as an error message has them. One without a code is a 500.
func (e *exception) error() *message.Error {
	if e == nil {
		return nil
	}
	out := &message.Error{Code: 500, Message: e.text(), Cause: e.Cause.error()}
	if e.coded() {
		out.Code, out.Message = int(e.Code), e.Message
	}
	return out
}
