package session

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
)

// A liveSession is a session whose turn runs, or that is watched: the messages that grow, and who watches.
// A watcher reads from here as far as it has come, so a slow one gets fewer and longer deltas, and
// nothing is kept for it.
type liveSession struct {
	x    *Sessions
	id   string
	uses int // guarded by Sessions.mu

	mu        sync.Mutex
	growing   []part
	withdrawn int // counts how often growing was withdrawn
	writes    int // counts the batches that have changed the session
	waiting   map[chan struct{}]struct{}
	runner    *runner
	asked     map[string]question // questions in sessions that this one has asked, by the calls that wait there
}

// A question is a call that waits for a decision.
type question struct {
	session string
	event   []byte // the data of Session.Asked
	from    string // the call of the relaying session that has caused it
}

// A part is a message that grows. Its text is only appended to.
type part struct {
	ID, Type string
	text     []byte
}

// begin returns the liveSession of a session. The caller calls end.
func (x *Sessions) begin(id string) *liveSession {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.live[id]
	if l == nil {
		l = &liveSession{x: x, id: id}
		x.live[id] = l
	}
	l.uses++
	return l
}

func (x *Sessions) end(l *liveSession) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l.uses--; l.uses == 0 {
		delete(x.live, l.id)
	}
}

func (x *Sessions) find(id string) *liveSession {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live[id]
}

// stored notes that a session has changed in the store.
func (x *Sessions) stored(id string) {
	l := x.find(id)
	if l == nil {
		return
	}
	l.mu.Lock()
	l.writes++
	r := l.runner
	l.wakeWatchers()
	l.mu.Unlock()
	if r != nil {
		r.nudge()
	}
}

// growing reports whether messages of a session grow.
func (x *Sessions) growing(id string) bool {
	l := x.find(id)
	return l != nil && len(l.parts()) > 0
}

// run notes who runs the turn; nil means that none does. What grew then grows no more.
func (l *liveSession) run(r *runner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runner, l.growing = r, nil
	l.wakeWatchers()
}

// wakeWatchers wakes the watchers. mu is held.
func (l *liveSession) wakeWatchers() {
	for news := range l.waiting {
		select {
		case news <- struct{}{}:
		default: // the watcher is about to look
		}
	}
}

// wait calls check now, and again after each change, until it returns true or ctx is done.
func (x *Sessions) wait(ctx context.Context, id string, check func(*liveSession) (over bool, err error)) error {
	l := x.begin(id)
	defer x.end(l)
	news := make(chan struct{}, 1)
	l.mu.Lock()
	if l.waiting == nil {
		l.waiting = make(map[chan struct{}]struct{})
	}
	l.waiting[news] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, news)
	}()
	for {
		if over, err := check(l); over || err != nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// discard withdraws the messages that grow.
func (l *liveSession) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.growing) > 0 {
		l.growing = nil
		l.withdrawn++
		l.wakeWatchers()
	}
}

// finish notes that what grew is stored whole.
func (l *liveSession) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.growing = nil
}

func (l *liveSession) parts() []part {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]part(nil), l.growing...)
}

// relay takes an event of a call: what waits for a decision in a session that the call has asked.
func (l *liveSession) relay(from string, m message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := jsonscan.Unquote(jsonscan.Member(m.Data, "call"))
	switch m.Type {
	case askedEvent:
		if l.asked == nil {
			l.asked = make(map[string]question)
		}
		l.asked[waits] = question{jsonscan.Unquote(jsonscan.Member(m.Data, "session")), bytes.Clone(m.Data), from}
	case decidedEvent:
		delete(l.asked, waits)
	default:
		return
	}
	l.writes++
	l.wakeWatchers()
}

// forget ends what a call has relayed.
func (l *liveSession) forget(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.asked)
	maps.DeleteFunc(l.asked, func(_ string, q question) bool { return q.from == from })
	if len(l.asked) != before {
		l.writes++
		l.wakeWatchers()
	}
}

// event takes an event of Model.Generate.
func (l *liveSession) event(m message.Message) {
	switch m.Type {
	case "Model.Discarded":
		l.discard()
	case "Model.Streamed":
		n, err := strconv.Atoi(string(jsonscan.Member(m.Data, "part")))
		if err != nil || n < 0 || n > 1000 {
			return
		}
		text := jsonscan.Content(jsonscan.Member(jsonscan.Member(m.Data, "delta"), "text"))
		l.mu.Lock()
		defer l.mu.Unlock()
		for len(l.growing) <= n {
			l.growing = append(l.growing, part{ID: l.x.ids.Next(l.x.opts.Now()), Type: jsonscan.Unquote(jsonscan.Member(m.Data, "type"))})
		}
		p := &l.growing[n]
		p.text = append(p.text, text...)
		l.wakeWatchers()
	}
}

type watchInput struct {
	Session string `json:"session" jsonschema:"maxLength=64" jsonschema_description:"The session."`
	After   uint64 `json:"after,omitzero" jsonschema_description:"Begin after the message with this seq. Default: with the first."`
	Limit   int    `json:"limit,omitzero" jsonschema:"minimum=1" jsonschema_description:"End after this many messages. Default: the watch runs until it is cancelled."`
	Until   string `json:"until,omitzero" jsonschema:"maxLength=26" jsonschema_description:"End when this turn has ended. Default: the watch runs until it is cancelled."`
}

type watchOutput struct {
	Seq uint64 `json:"seq" jsonschema_description:"The last message that was sent. Pass it as after to continue."`
}

var watch = kernel.DefineQuery[watchInput, watchOutput](kernel.Definition{
	Type:    "Session.Watch",
	Summary: "Stream the messages of a session: those after a seq, the one that grows as it is now, then new ones as they come.",
	Emits:   events,
	Presentation: kernel.Presentation{
		Title: "Watch a session",
		Words: "follow a conversation, live transcript, see the answer as it is written, follow a chat live, stream the reply, listen in on a conversation, " +
			"watch the assistant work",
		Errors: []kernel.ErrorDefinition{{Code: 404, When: "no session that the caller sees has this id"}},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Endless, Timeout: 24 * time.Hour},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Recording: kernel.InWorkflows},
})

func (x *Sessions) watch(ctx context.Context, in watchInput, stream *kernel.Stream) (watchOutput, error) {
	s, err := x.visible(ctx, in.Session)
	if err != nil {
		return watchOutput{}, err
	}
	f := follower{x: x, id: s.ID, seq: in.After, until: in.Until, limit: in.Limit, stream: stream}
	err = f.follow(ctx)
	if context.Cause(ctx) == kernel.ErrStopping {
		err = nil
	}
	return watchOutput{f.seq}, err
}

// follow sends the messages so far and those that come, until a turn has ended, or for as long as ctx lasts.
func (f *follower) follow(ctx context.Context) error {
	f.sent, f.writes = make(map[string]int), -1
	return f.x.wait(ctx, f.id, func(l *liveSession) (bool, error) {
		l.mu.Lock()
		f.parts = append(f.parts[:0], l.growing...)
		writes, withdrawn := l.writes, l.withdrawn
		if writes != f.writes {
			f.below = maps.Clone(l.asked)
		}
		l.mu.Unlock()
		return f.step(ctx, f.parts, writes, withdrawn)
	})
}

// A follower is how far a watcher has come.
type follower struct {
	x         *Sessions
	id        string
	until     string // the turn that the watch waits for; "" means none
	quiet     bool   // only approvals are sent
	limit     int    // how many more messages are sent; 0 means any number
	seq       uint64 // number of the last message that was sent
	last      string // the id of the last message that was sent
	stream    *kernel.Stream
	sent      map[string]int      // sent bytes of each message that grows
	parts     []part              // growing messages, as of the last look
	event     []byte              // the last event that was sent
	below     map[string]question // questions in sessions that this one has asked, at the last look
	asked     map[string]question // questions that were sent and still wait
	writes    int
	withdrawn int
}

// step sends what is new. It reports whether that was all.
func (f *follower) step(ctx context.Context, parts []part, writes, withdrawn int) (over bool, err error) {
	if writes != f.writes {
		f.writes = writes
		if over, err = f.stored(ctx); err != nil || over {
			return over, err
		}
	}
	if f.quiet {
		return over, nil
	}
	if withdrawn != f.withdrawn {
		f.withdrawn = withdrawn
		if err := f.discard(parts); err != nil {
			return over, err
		}
	}
	for _, p := range parts {
		from, began := f.sent[p.ID]
		if p.ID <= f.last || began && from == len(p.text) || len(p.text) == 0 {
			continue
		}
		data := jsonscan.AppendQuoted(append(f.event[:0], `{"session":`...), f.id)
		data = jsonscan.AppendQuoted(append(data, `,"id":`...), p.ID)
		data = jsonscan.AppendQuoted(append(data, `,"messageType":`...), p.Type)
		data = strconv.AppendInt(append(data, `,"offset":`...), int64(from), 10)
		data = jsonscan.AppendQuoted(append(data, `,"delta":{"text":`...), string(p.text[from:]))
		f.event = append(data, `}}`...)
		f.stream.EmitText(streamedEvent, f.event)
		f.sent[p.ID] = len(p.text)
	}
	return over, nil
}

// stored sends what was stored, once it is durable.
func (f *follower) stored(ctx context.Context) (over bool, err error) {
	s, err := f.x.load(f.id)
	if err != nil {
		return false, err
	}
	over = f.until != "" && !s.has(f.until)
	if over {
		queued, err := f.x.opts.Store.Get(key(keyQueued, f.id, f.until))
		if err != nil {
			return false, err
		}
		over = queued.Revision == 0
	}
	if !f.quiet && s.Seq > f.seq {
		full, err := f.messages(ctx, s)
		if err != nil || full {
			return full, err
		}
	}
	if f.until != "" {
		err = f.approvals(ctx, s, over)
	}
	return over, err
}

// messages sends those that come after the last one that was sent. It reports whether there are as many as were
// wanted.
func (f *follower) messages(ctx context.Context, s *session) (full bool, err error) {
	if err := f.x.opts.Store.Barrier().Wait(ctx); err != nil {
		return false, err
	}
	var failed error
	err = f.x.each(&s.head, f.seq, func(seq uint64, text []byte) bool {
		if seq > s.Seq {
			return false
		}
		var m Message
		if failed = json.Unmarshal(text, &m); failed != nil {
			return false
		}
		data := strconv.AppendUint(append(jsonscan.AppendQuoted(append(f.event[:0], `{"session":`...), f.id), `,"seq":`...), seq, 10)
		f.event = append(append(append(data, `,"message":`...), text...), '}')
		f.stream.EmitText(appendedEvent, f.event)
		f.seq, f.last = seq, m.ID
		delete(f.sent, m.ID)
		f.limit--
		full = f.limit == 0
		return !full
	})
	if err == nil {
		err = failed
	}
	return full, err
}

// has reports whether a turn of the session is open.
func (s *session) has(turn string) bool { return s.turn != nil && s.turn.ID == turn }

// discard notes that messages which grew are withdrawn.
func (f *follower) discard(parts []part) error {
	var ids []string
	for id := range f.sent {
		kept := false
		for _, p := range parts {
			kept = kept || p.ID == id
		}
		if !kept {
			ids = append(ids, id)
			delete(f.sent, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return f.stream.Emit(discardedEvent, struct {
		Session string   `json:"session"`
		IDs     []string `json:"ids"`
	}{f.id, ids})
}
