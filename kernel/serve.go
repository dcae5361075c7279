package kernel

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"kernos/message"
)

// A Source is the receiving side of a connection.
type Source interface {
	// Next returns the next message, which is valid, and where its answers go. The
	// message's data may be overwritten by the call after it. A *Refused is answered, and
	// the connection goes on; any other error ends it, io.EOF in an orderly way.
	//
	// Next is called by several goroutines, but never at the same time.
	Next() (message.Message, Emit, error)

	// Detach leaves the data of the last message alone from now on: its handler is
	// still running, and the next message can't wait for it.
	Detach()
}

// A Refused is the error for something on a connection that is no valid message.
type Refused struct {
	Request message.Message // what could be read of it
	Err     *message.Error  // what it is answered with
}

func (r *Refused) Error() string { return r.Err.Error() }

// Serve answers the messages of one connection until its source ends and everything
// is answered. Messages start in the order in which they came, and one that is not
// slow is finished before the next is begun, so a later message sees what an earlier
// one did. Slow syscalls run aside. A handler that overstays its deadline, whether
// it looks at its context or not, is answered for with a 504 and left behind.
//
// The error is that of the source, nil for io.EOF. After any other error, and when a
// [Leaver] has left, nobody waits for the answers: queries that still run are cancelled,
// and commands are completed.
func (k *Kernel) Serve(ctx context.Context, src Source) error {
	ended := make(chan error, 1)
	k.Start(ctx, src, func(err error) { ended <- err })
	return <-ended
}

// Start is [Kernel.Serve] for somebody who does not wait: it returns at once, and ended is
// called with the error at the end. A connection that is idle has one goroutine.
func (k *Kernel) Start(ctx context.Context, src Source, ended func(error)) {
	s := &session{k: k, ctx: ctx, src: src, begun: time.Now(), ended: ended, running: make(map[message.ID]*call)}
	s.inquiries.gone = make(chan struct{})
	if a, ok := src.(Asked); ok {
		a.Asked(s.inquiries.serves)
	}
	s.asking, s.abandon = context.WithCancel(ctx)
	if c, ok := src.(Controller); ok {
		s.places, s.mute = c.Serving(s.cancel), true
	}
	var flush func()
	if f, ok := src.(interface{ Flush() }); ok {
		flush = f.Flush
	}
	s.box = newOutbox(k, flush)
	s.box.at, _ = src.(Prompter)
	k.sessions.add(s)
	go s.turn()
}

// end ends the session when its source has: what is under way is answered first. It is called
// by whoever has the turn.
func (s *session) end(err error) {
	s.inquiries.close()
	stopWatching := func() {}
	if err != io.EOF {
		s.abandon()
	} else if s.busy() {
		stopWatching = s.watchPeer()
	}
	s.aside.Wait()
	s.later.forget()
	s.stopWatch()
	s.box.close()
	stopWatching()
	s.k.sessions.remove(s)
	s.abandon()
	if err == io.EOF {
		err = nil
	}
	s.ended(err)
}

// busy reports whether calls run aside, or wait for their turn.
func (s *session) busy() bool {
	s.asides.Lock()
	defer s.asides.Unlock()
	return s.slow > 0 || s.working
}

// watchPeer cancels the queries when the peer has left, if the source can tell. The source is
// not read until stop has returned.
func (s *session) watchPeer() (stop func()) {
	l, ok := s.src.(Leaver)
	if !ok {
		return func() {}
	}
	finished := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if l.Left(finished) {
			s.abandon()
		}
	}()
	return func() {
		close(finished)
		<-watched
	}
}

// An Asked is a Source that wants to know whether its peer serves others: as long as they
// wait for it, it has to be read.
type Asked interface {
	// Asked is called before the first Next. It is given what reports whether somebody waits
	// for the peer, or may.
	Asked(serves func() bool)
}

// A Controller is a Source that has a say in its slow calls. Its peer can't be asked
// anything: [PeerOf] finds none.
type Controller interface {
	// Serving is called before the first Next. It is given what cancels a slow call, by the
	// id of its request, and reports whether it was running. It returns how many of them may
	// run at once; 0 means as many as the kernel's options say.
	Serving(cancel func(message.ID) bool) (inFlight int)
}

// A Leaver is a Source that knows whether anybody is left to read the answers, after its end
// and while nobody reads it.
type Leaver interface {
	// Left returns true when the peer has gone for good, or false when finished is closed.
	// It is not called while Next is, and may be called again.
	Left(finished <-chan struct{}) bool
}

// session is one connection. One goroutine at a time has the turn: it reads the next
// message and runs its handler. If the handler overstays, the watch takes the turn
// away from its goroutine and gives it to a new one.
//
// Invariants:
//
//	S1  at most one goroutine has the turn
//	S2  a call is current only while its goroutine has the turn; who swaps it for nil
//	    decides who goes on
//	S3  the source is read by one goroutine: the one that has the turn or, if what has come
//	    waits for its turn, the lookout
type session struct {
	k       *Kernel
	id      uint64
	ctx     context.Context // of commands, which are completed whatever becomes of their caller
	asking  context.Context // of queries, which end with the connection
	abandon func()          // ends it
	src     Source
	begun   time.Time
	ended   func(error) // is told of the end

	taken atomic.Uint64 // messages that came
	box   *outbox       // what goes to the connection

	inquiries inquiries // what the connection is asked

	places  int  // for slow calls; 0 means the kernel's
	mute    bool // the peer answers nothing
	aside   sync.WaitGroup
	asides  sync.Mutex
	running map[message.ID]*call // those aside, by the ids of their requests
	waiting chan struct{}        // closed when one of them has ended; nil if nobody waits
	slow    int                  // how many there are
	endless int                  // how many of them do not end by themselves
	later   laters               // those that no goroutine has

	ahead   bool // the lookout reads, and not the turn; of whoever has the turn
	backlog      // what it has read

	current atomic.Pointer[call]
	watch   sync.Mutex
	timer   *time.Timer
	wake    atomic.Int64 // how long after begun the timer fires; 0 if it does not
	over    bool         // guarded by watch
}

func (s *session) turn() { s.turnWith(s.next()) }

// next returns what is to be done next.
func (s *session) next() (message.Message, Emit, error) {
	if s.ahead {
		return s.unqueue()
	}
	return s.read()
}

// turnWith is the turn, beginning with what was to be done next.
func (s *session) turnWith(m message.Message, send Emit, err error) {
	var c *call   // ours
	left := false // in an orderly way
	defer func() {
		// If not, the handler ended the goroutine. Its call is settled; the turn goes on,
		// unless the watch has taken it away already, as it can that of a call that is not
		// slow.
		if !left && c != nil && (c.syscall.Runs != Inline || s.current.CompareAndSwap(c, nil)) {
			s.detach()
			go s.turn()
		}
	}()
	for ; ; m, send, err = s.next() {
		if err != nil {
			left = true
			if err != errWorkedOff {
				s.end(err)
			}
			return
		}
		c = s.k.admit(s.asking, &m, send, s.box, nil)
		if c == nil {
			continue
		}
		c.session = s
		if c.syscall.Kind == message.KindCommand {
			c.parent = s.ctx
		}
		if c.syscall.Runs != Inline {
			a := s.beginAside(c)
			if a == nil || a.begunLater() {
				continue
			}
			// This goroutine has the call at hand: another one takes the turn.
			left = true
			go s.turn()
			a.run()
			return
		}
		s.current.Store(c)
		if wake := s.wake.Load(); wake == 0 || int64(c.deadline.Sub(s.begun)) < wake {
			s.watchUntil(c.deadline)
		}
		c.run()
		if !s.current.CompareAndSwap(c, nil) {
			left = true
			return
		}
		c = nil // a connection that is idle holds nothing of it
	}
}

// read takes the next message from the source. What can't be one is answered, and so is what
// may not come from a connection; what answers an inquiry goes to whoever asked.
func (s *session) read() (message.Message, Emit, error) {
	for {
		m, send, err := s.src.Next()
		if r, ok := err.(*Refused); ok {
			s.taken.Add(1)
			s.spoil(r)
			s.k.refuse(&r.Request, send, s.box, r.Err)
			continue
		}
		if err != nil {
			return message.Message{}, nil, err
		}
		s.taken.Add(1)
		if m.Kind.Asks() || !s.take(&m) && !s.forged(&m, send) {
			return m, send, nil
		}
	}
}

// detach leaves the data of the last message alone, whose handler is still running. What has
// waited for its turn has memory of its own.
func (s *session) detach() {
	if !s.ahead {
		s.src.Detach()
	}
}

// watchUntil makes the timer fire at t at the latest.
func (s *session) watchUntil(t time.Time) {
	s.watch.Lock()
	defer s.watch.Unlock()
	due := int64(t.Sub(s.begun)) // not by the wall clock, which may be set
	if wake := s.wake.Load(); s.over || wake != 0 && wake <= due {
		return
	}
	s.wake.Store(due)
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(t), s.overdue)
		return
	}
	s.timer.Reset(time.Until(t))
}

func (s *session) stopWatch() {
	s.watch.Lock()
	defer s.watch.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// overdue looks at the current call when the timer fires. If there is none, the next
// call sets the timer again: it is made current before it looks at wake.
func (s *session) overdue() {
	s.wake.Store(0)
	c := s.current.Load()
	if c == nil {
		return
	}
	if time.Until(c.deadline) > 0 {
		s.watchUntil(c.deadline)
		return
	}
	if s.current.CompareAndSwap(c, nil) {
		s.detach()
		c.expire()
		go s.turn()
	}
}
