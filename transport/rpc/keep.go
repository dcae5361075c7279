package rpc

import (
	"container/list"
	"strconv"
	"strings"
	"sync"
	"time"

	"kernos/kernel"
	"kernos/kernel/principal"
)

// keep is the streams of a service that can be resumed. They are found by the connections that
// they came over, so that calls over different ones don't wait for each other. Those whose
// connection was lost are given up when no peer has resumed them in time, and before that, the
// first one first, when they are too many.
type keep struct {
	opts *Options

	mu      sync.Mutex
	conns   map[string]*conn // connections that have streams, by name
	lost    list.List        // elements are *stream, the first to be lost first
	bytes   int              // bytes kept for lost streams
	endless int              // lost streams whose call doesn't end by itself and still runs
	expiry  *time.Timer      // sweeps; nil before the first stream is lost
	closed  bool
}

// What a lost stream counts for, beside its items: more if its call still runs.
const (
	lostSize    = 1 << 10
	lostRunning = 8 << 10
)

// add and remove are called with the lock of the connection held.
func (k *keep) add(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conns == nil {
		k.conns = make(map[string]*conn)
	}
	k.conns[c.name] = c
}

func (k *keep) remove(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c.name)
}

// find returns the stream of an id, if it is the caller's, or nil.
func (k *keep) find(caller *principal.Principal, id string) *stream {
	name, digits, _ := strings.Cut(id, "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return nil
	}
	k.mu.Lock()
	c := k.conns[name]
	k.mu.Unlock()
	if c == nil || c.caller.ID() != caller.ID() || c.caller.Life().Err() != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[number]
}

// lose keeps a stream whose connection was lost. Its lock is held; sweep follows.
func (k *keep) lose(st *stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	st.lost, st.lostAt, st.keptBytes = k.lost.PushBack(st), time.Now(), lostSize+len(st.log)
	if !st.over {
		st.keptBytes += lostRunning
		st.endless = st.route != nil && st.route.Syscall.Runs == kernel.Endless
	}
	if st.endless {
		k.endless++
	}
	k.bytes += st.keptBytes
	if k.expiry == nil {
		k.expiry = time.AfterFunc(k.opts.KeepFor, k.sweep)
	}
}

// found notes that a lost stream was resumed, or given up. Its lock is held.
func (k *keep) found(st *stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if st.lost != nil {
		k.lost.Remove(st.lost)
		k.bytes -= st.keptBytes
		k.end(st)
		st.lost = nil
	}
}

// done notes that the call of a lost stream has ended. The lock of the stream is held.
func (k *keep) done(st *stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end(st)
}

func (k *keep) end(st *stream) {
	if st.endless {
		st.endless = false
		k.endless--
	}
}

// grow adds n bytes to a lost stream. A stream that has become too large to be resumed without a
// gap is given up before all others. The lock of the stream is held.
func (k *keep) grow(st *stream, n int, tooLarge bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	st.keptBytes += n
	k.bytes += n
	if tooLarge {
		k.lost.MoveToFront(st.lost)
		st.lostAt = time.Time{}
	}
	if tooLarge || k.tooMuch() {
		k.expiry.Reset(0) // sweeps on another goroutine: the caller may hold the lock of the call
	}
}

// tooMuch reports whether lost streams exceed a limit: of bytes, or of endless calls.
func (k *keep) tooMuch() bool { return k.bytes > k.opts.KeepAll || k.endless > k.opts.KeepEndless }

// sweep gives up what is not kept any longer.
func (k *keep) sweep() {
	for st := k.next(); st != nil; st = k.next() {
		st.abandon(func() bool { return st.at == nil })
	}
}

// next returns the lost stream that is to be given up now, or nil.
func (k *keep) next() *stream {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := k.lost.Front()
	if first == nil {
		return nil
	}
	st := first.Value.(*stream)
	left := time.Until(st.lostAt.Add(k.opts.KeepFor))
	if left <= 0 || k.closed || k.tooMuch() {
		return st
	}
	k.expiry.Reset(left)
	return nil
}

// close gives up everything that waits, and all that is lost after that.
func (k *keep) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.sweep()
}
