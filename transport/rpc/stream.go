package rpc

import (
	"bytes"
	"container/list"
	"context"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// stream is one call, and what came of it. Its items are numbered from 1.
//
// Invariants:
//
//	R1  the acknowledgement is written before the first item
//	R2  the items of a stream are written in the order of their numbers, without gap or
//	    repeat, to one connection at a time
//	R3  the last item is done, and there is exactly one
type stream struct {
	svc       *Service
	from      kernel.Sender // of the call; the stream belongs to its principal
	namespace string        // the namespace that items name as their origin
	method    string        // the method as the caller named it
	route     *kernel.Route // nil for methods of the service itself
	outcome   *Outcome      // takes the outcome of a call whose items are not sent; or nil

	origin  *conn      // the connection that the call came over; nil if there are no items
	number  uint64     // the stream's number in origin
	request message.ID // the call's id in the kernel

	mu      sync.Mutex
	at      *conn  // where items go; nil if the connection was lost
	held    bool   // items wait in log until the new connection has acknowledged
	seq     int64  // number of the last item
	over    bool   // done was the last item
	ended   bool   // service_unsubscribe ended the stream while it was held: it is forgotten afterwards
	params  []byte // the call's parameters, kept until the first item
	log     []byte // the last items, as frames: the length of each in 4 bytes, and the frame
	logged  int    // number of items in log
	counted int    // bytes of log when the stream was done

	reserved atomic.Int64 // bytes of log that are taken from the kernel's budget

	// For a stream that was lost; the lock of keep guards these.
	lost      *list.Element
	lostAt    time.Time
	keptBytes int
	endless   bool // the call does not end by itself

	event   message.Type // the type of the last event
	content string       // the content type of event
}

// view returns what the caller sees of the kernel.
func (st *stream) view() kernel.View { return st.svc.view(st.from.Principal()) }

// answer is the one data item of what the service itself is asked.
func (st *stream) answer(contentType string, data json.RawMessage) {
	if st.lostRead() {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.reply(contentType, data)
}

// lostRead waits until nothing can be lost that the service itself has read, such as what there is to call. If that isn't
// known, it answers with the reason, and returns true.
func (st *stream) lostRead() bool {
	ctx, cancel := context.WithTimeout(context.Background(), kernel.MaxCommit)
	defer cancel()
	err := st.svc.k.AwaitFence(ctx)
	if err != nil {
		e, _ := message.ErrorOf(err)
		st.forbid(e)
	}
	return err != nil
}

// reply, data, fail and done put items. They are called with mu held, as all that follows.
func (st *stream) reply(contentType string, data []byte) {
	if st.origin != nil {
		st.data(contentType, data, nil, true)
	} else if st.outcome != nil {
		st.outcome.Data = bytes.Clone(data)
	}
	st.done()
}

func (st *stream) data(contentType string, data []byte, via *message.Via, more bool) {
	st.put(appendData(st.begin(typeData, via), contentType, data), more)
}

func (st *stream) fail(e *message.Error) {
	if st.origin != nil {
		st.put(appendError(st.begin(typeError, e.Nested()), e, recoverable(e.Code)), true)
	} else if st.outcome != nil {
		st.outcome.Err = e
	}
	st.done()
}

func (st *stream) done() {
	st.over = true
	st.params = nil
	if st.origin == nil {
		return
	}
	if st.at == nil {
		st.svc.kept.done(st)
	}
	// The kernel flushes when a call that isn't slow ends.
	more := st.route != nil && st.route.Syscall.Runs == kernel.Inline
	st.put(st.begin(typeDone, nil), more)
	st.origin.finish(st)
}

// guide puts guidance. It is part of the outcome too, as the item that it would be.
func (st *stream) guide(g *guidance) {
	if st.origin != nil {
		st.put(g.append(st.begin(typeGuidance, nil)), true)
	} else if st.outcome != nil {
		st.outcome.Guidance = st.endItem(g.append(st.beginItem(nil, typeGuidance, nil)))
	}
}

// begin begins an item, in its frame.
func (st *stream) begin(kind string, via *message.Via) []byte {
	if st.log == nil {
		st.log = make([]byte, 0, 768)
	}
	dst := append(st.log, 0, 0, 0, 0)
	dst = st.appendID(append(dst, frameStart...))
	return st.beginItem(append(dst, frameItem...), kind, via)
}

// beginItem appends what every item begins with. via names the nested calls that it came
// through.
func (st *stream) beginItem(dst []byte, kind string, via *message.Via) []byte {
	dst = append(dst, `{"service_hash":"`...)
	dst = append(dst, st.view().Hash()...)
	dst = append(dst, `","type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","provenance":["`...)
	dst = append(dst, st.namespace...) // lower case and digits, and nothing that needs escapes
	for ; via != nil; via = via.Within {
		namespace, _ := kernel.Method(via.Type)
		dst = append(dst, `","`...)
		dst = append(dst, namespace...)
	}
	return append(dst, `"]`...)
}

// endItem appends what every item ends with.
func (st *stream) endItem(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `,"seq":`...), st.seq+1, 10)
	return append(dst, '}')
}

// put ends an item and sends it.
func (st *stream) put(dst []byte, more bool) {
	dst = append(st.endItem(dst), frameEnd...)
	st.seq++
	start := len(st.log) + 4
	binary.LittleEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	st.log = dst
	st.logged++
	opts := &st.svc.opts
	affordable := cap(dst) <= smallLog || st.reserve(cap(dst))
	tooLarge := st.logged > 1 && (st.logged > opts.KeepItems || len(st.log) > opts.KeepBytes || !affordable)
	if st.at == nil {
		st.svc.kept.grow(st, len(dst)-start+4, tooLarge)
		return
	}
	if st.held {
		return
	}
	st.at.wire.Write(dst[start:], more)
	if !affordable {
		st.log = bytes.Clone(dst[start-4:])
		st.logged = 1
		st.reserve(0)
	} else if tooLarge {
		st.trim()
	}
}

// smallLog is how large a log is that every stream may have.
const smallLog = 4 << 10

// reserve takes the bytes of the log from the budget of the caller, and gives back what it has
// less. It reports whether there were as many: if not, nothing is kept but the last item.
func (st *stream) reserve(size int) bool {
	more := size - int(st.reserved.Load())
	if more > 0 {
		if st.svc.k.Kept().Take(st.from.Principal(), more) != nil {
			return false
		}
		st.reserved.Add(int64(more))
		return true
	}
	st.release(-more)
	return true
}

// release gives bytes back to the budget, but not more than were taken. It needs no lock.
func (st *stream) release(n int) {
	for {
		taken := st.reserved.Load()
		back := min(int64(n), taken)
		if back <= 0 {
			return
		}
		if st.reserved.CompareAndSwap(taken, taken-back) {
			st.svc.k.Kept().Give(st.from.Principal(), int(back))
			return
		}
	}
}

// trim drops the first half of what is kept: at once, so that it costs little.
func (st *stream) trim() {
	opts, rest := &st.svc.opts, st.log
	for st.logged > 1 && (st.logged > opts.KeepItems/2 || len(rest) > opts.KeepBytes/2) {
		rest = rest[4+binary.LittleEndian.Uint32(rest):]
		st.logged--
	}
	st.log = append(st.log[:0], rest...)
}

// after returns the frames after item number n that are kept.
func (st *stream) after(n int64) (frames []byte, ok bool) {
	first := st.seq - int64(st.logged) // the number before the first that is kept
	if n < first || n > st.seq {
		return nil, false
	}
	frames = st.log
	for ; first < n; first++ {
		frames = frames[4+binary.LittleEndian.Uint32(frames):]
	}
	return frames, true
}

// appendID appends the id of the stream: the name of its connection, which can't be guessed,
// and its number there.
func (st *stream) appendID(dst []byte) []byte {
	dst = append(append(dst, st.origin.name...), '-')
	return strconv.AppendUint(dst, st.number, 10)
}

// cancel ends the stream for a caller that no longer wants it, and forgets it. A
// connection that is about to get what is kept of it gets the end too.
func (st *stream) cancel() {
	st.mu.Lock()
	if !st.over {
		st.fail(&message.Error{Code: 499, Message: "Cancelled"})
	}
	st.ended = st.held
	st.mu.Unlock()
	st.abort()
	st.abandon(func() bool { return !st.held })
}

// abandon ends a stream if unread reports true: a query is cancelled, a
// command completed.
func (st *stream) abandon(unread func() bool) {
	st.mu.Lock()
	if !unread() {
		st.mu.Unlock()
		return
	}
	st.detach()
	st.drop()
	if !st.over {
		st.over = true // whatever may still come
		st.origin.finish(st)
	}
	query := st.route != nil && st.route.Syscall.Kind == message.KindQuery
	st.mu.Unlock()
	if query {
		st.abort()
	}
	st.origin.forget(st)
}

// drop forgets the items. mu is held.
func (st *stream) drop() {
	st.log, st.logged = nil, 0
	st.reserve(0)
}

// detach notes that the items of the stream go nowhere for the moment. mu is held.
func (st *stream) detach() {
	at := st.at
	if at == nil {
		st.svc.kept.found(st)
		return
	}
	at.mu.Lock()
	delete(at.resumed, st)
	if st.over {
		at.unretire(st)
	} else {
		at.open--
		at.changed.Broadcast()
	}
	at.mu.Unlock()
	if at.feed != nil {
		at.feed.end()
	}
	st.at, st.held = nil, false
}

// abort cancels the call.
func (st *stream) abort() {
	st.mu.Lock()
	request := st.request
	st.mu.Unlock()
	if stop := st.origin.stop; stop != nil && request != "" {
		stop(request)
	}
}
