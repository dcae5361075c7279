package session

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/cursor"
)

// The keys of sessions begin with SpaceSessions and a letter. An id has 26 characters.
const (
	keyHead    = 'h' // id → head
	keyMessage = 'm' // id, seq → Message
	keyTurn    = 't' // id → turn, while one is open: a restart looks at these only
	keyQueued  = 'q' // id, turn → queued input
	keyResult  = 'c' // id, call → Result that isn't in the stream yet
	keyFork    = 'f' // id, id of a fork
	keyType    = 'y' // type → definition
	keyChild   = 'a' // principal, idempotency key → turnOutput of the child session that Agent.Ask has begun
	keyAlways  = 'r' // principal → types that are always allowed
)

// queueLetter is that of the queue of turns among the queues of a store.
const queueLetter = 's'

func key(letter byte, parts ...string) []byte {
	k := append(make([]byte, 0, 64), store.SpaceSessions, letter)
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}

func messageKey(id string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(key(keyMessage, id), seq)
}

// A head is what a session is, beside its messages. Its revision guards the session: a batch that
// changes anything of it depends on the head as it was read, and writes it again.
type head struct {
	ID        string       `json:"id"`
	Title     string       `json:"title,omitzero"`
	Model     string       `json:"model,omitzero"`
	Agent     *agentPin    `json:"agent,omitzero"`
	Tools     []tool       `json:"tools"`
	Policy    []rule       `json:"policy,omitzero"`
	Allowed   []string     `json:"allowed,omitzero"` // types that Session.Decide has allowed for the session
	Budget    Budget       `json:"budget"`
	Total     Total        `json:"total,omitzero"`
	Compact   string       `json:"compact,omitzero"`
	Principal principal.ID `json:"principal"`
	Token     string       `json:"token,omitzero"` // the name of the principal
	Wire      string       `json:"wire,omitzero"`
	Created   int64        `json:"created"`
	Updated   int64        `json:"updated"`

	Seq    uint64 `json:"seq"`  // number of the last message
	Leaf   uint64 `json:"leaf"` // the message that the next one follows
	LastID string `json:"lastId,omitzero"`

	Parent *parentOf `json:"parent,omitzero"` // the parent of a child session
	Fork   *forkedAt `json:"fork,omitzero"`
	Used   Usage     `json:"used"`
	Turns  int       `json:"turns,omitzero"` // how many have ended
	Ended  []ending  `json:"ended,omitzero"` // the last of them
}

// An agentPin is the agent of a session, as it was when the session was created.
type agentPin struct {
	URI  string `json:"uri" jsonschema_description:"The agent file."`
	Hash string `json:"hash" jsonschema_description:"The hash of the file."`
	Now  string `json:"now,omitzero" jsonschema_description:"The hash of the file since it has changed. The session keeps what it has."`
}

// neverCompact is the setting of a session whose messages are summarized by Session.Compact only.
const neverCompact = "never"

// parentOf is the call that a child session answers.
type parentOf struct {
	Session string `json:"session"`
	Depth   int    `json:"depth"`
}

// forkedAt records whose messages up to a seq are the first of a fork.
type forkedAt struct {
	Session string `json:"session" jsonschema_description:"The session that it was forked from."`
	Seq     uint64 `json:"seq" jsonschema_description:"The last message that both have."`
}

// An ending is how a turn has ended.
type ending struct {
	Turn   string         `json:"turn" jsonschema_description:"The turn."`
	Status string         `json:"status" jsonschema_description:"How it ended: done, limited, canceled or failed."`
	Reply  uint64         `json:"reply,omitzero" jsonschema_description:"The seq of its last reply."`
	Error  jsontext.Value `json:"error,omitzero" jsonschema_description:"Why it failed, or which budget was used up."`
	Used   Usage          `json:"used" jsonschema_description:"What it used."`
}

// maxEnded is how many endings a head keeps.
const maxEnded = 8

// Usage is what turns have used.
type Usage struct {
	Steps  int     `json:"steps,omitzero" jsonschema_description:"Generations of the model."`
	Tokens int64   `json:"tokens,omitzero" jsonschema_description:"Tokens that the model has read and written."`
	Cost   float64 `json:"cost,omitzero" jsonschema_description:"Money, in the currency of the model's price."`
	Calls  int     `json:"calls,omitzero" jsonschema_description:"Calls of syscalls."`
}

func (u *Usage) add(o Usage) {
	u.Steps, u.Tokens, u.Cost, u.Calls = u.Steps+o.Steps, u.Tokens+o.Tokens, u.Cost+o.Cost, u.Calls+o.Calls
}

// The states of a turn.
const (
	thinking = "think"
	acting   = "act"
)

// The ways in which a turn ends, and how far an open one is.
const (
	statusDone     = "done"
	statusLimited  = "limited"
	statusCanceled = "canceled"
	statusFailed   = "failed"
	statusRunning  = "running"
	statusWaiting  = "waiting"
)

// A turn is one that is open.
type turn struct {
	ID          string      `json:"id"`
	State       string      `json:"state"`
	Long        bool        `json:"long,omitzero"`    // the model has refused the conversation as too long
	Waiting     bool        `json:"waiting,omitzero"` // the turn isn't in the queue: a caller has to act first
	Began       int64       `json:"began"`
	Used        Usage       `json:"used"`
	Reply       uint64      `json:"reply,omitzero"`
	Cause       message.ID  `json:"cause"` // the request, or the message with the calls, that the next step comes from
	Correlation string      `json:"correlation"`
	Remote      bool        `json:"remote,omitzero"` // the input came over the network, so it may not point to files of this machine
	Calls       []callState `json:"calls,omitzero"`  // calls of the step that is acting
}

// The states of a call.
const (
	callNew       = ""
	callReady     = "ready" // allowed
	callAsked     = "asked" // waits for Session.Decide
	callElsewhere = "elsewhere"
	callDone      = "done" // the result is in the stream
)

// A callState is how far a call is.
type callState struct {
	ID    string         `json:"id"`
	Name  message.Type   `json:"name"`
	Args  jsontext.Value `json:"args,omitzero"`
	State string         `json:"state,omitzero"`
	Hash  string         `json:"hash,omitzero"` // hash of the call that was asked about
	Rule  string         `json:"rule,omitzero"` // the rule that asks
	Given bool           `json:"given,omitzero"`
	As    principal.ID   `json:"as,omitzero"` // the caller whose rights bound the call, since it has allowed it; see mayAllow

	// Reached is what the call was about to reach when it was made first. It failed then, waits for a
	// decision, and is made again under another key.
	Reached []kernel.Reached `json:"reached,omitzero"`
}

func (t *turn) call(id string) *callState {
	for i := range t.Calls {
		if t.Calls[i].ID == id {
			return &t.Calls[i]
		}
	}
	return nil
}

// key returns the idempotency key of a call of a session.
func (c *callState) key(session string) string {
	if len(c.Reached) > 0 {
		return callKey(session, c.ID) + "/again"
	}
	return callKey(session, c.ID)
}

// keyed returns the call with an idempotency key, or nil.
func (t *turn) keyed(session, key string) *callState {
	for i := range t.Calls {
		if t.Calls[i].key(session) == key {
			return &t.Calls[i]
		}
	}
	return nil
}

// A queued is an input that waits for the turn before it.
type queued struct {
	Message     Message    `json:"message"`
	Cause       message.ID `json:"cause"`
	Correlation string     `json:"correlation"`
	Remote      bool       `json:"remote,omitzero"`
}

// callKey returns the idempotency key of a call.
func callKey(session, call string) string { return "session/" + session + "/" + call }

// callPrefix is what the ids begin with that the kernel gives to calls.
const callPrefix = "call_"

func isKernelCall(id string) bool { return strings.HasPrefix(id, callPrefix) }

func readTurn(text []byte) (t turn, err error) { return t, json.Unmarshal(text, &t) }

// A session is the state of one as it was read.
type session struct {
	head
	turn     *turn // nil if none is open
	revision store.Revision
}

type sessionInput struct {
	Session string `json:"session" jsonschema:"maxLength=64" jsonschema_description:"The session, as Session.Create replied it, or its short form: its beginning and its end with … between them."`
}

var notFoundError = kernel.ErrorDefinition{Code: 404, When: "no session that the caller sees has this id"}

func notFound(id string) error {
	form := ""
	if len(id) != 26 && !strings.Contains(id, "…") {
		form = "the id of a session has 26 characters, such as 01JFV0Y1G0Q3W8Z4X6Y2N1M9KA; "
	}
	return message.Errorf(404, "Session not found: %s (%sSession.List lists the sessions: kernos session list)", message.Clip(id, 64), form)
}

// load returns a session, or a 404.
func (x *Sessions) load(id string) (*session, error) {
	if len(id) != 26 {
		return nil, notFound(id)
	}
	e, err := x.opts.Store.Get(key(keyHead, id))
	if err != nil {
		return nil, err
	}
	if e.Revision == 0 {
		return nil, notFound(id)
	}
	s := &session{revision: e.Revision}
	if err := json.Unmarshal(e.Value, &s.head); err != nil {
		return nil, fmt.Errorf("the session %s can't be read: %w", id, err)
	}
	open, err := x.opts.Store.Get(key(keyTurn, id))
	if err != nil {
		return nil, err
	}
	if open.Revision != 0 {
		t, err := readTurn(open.Value)
		if err != nil {
			return nil, fmt.Errorf("the turn of the session %s can't be read: %w", id, err)
		}
		s.turn = &t
	}
	return s, nil
}

// visible returns a session that the caller sees, by its id or the short form of it. To other callers, the session
// doesn't exist.
func (x *Sessions) visible(ctx context.Context, id string) (*session, error) {
	sees := kernel.PrincipalOf(ctx).Sees
	whole, err := cursor.Whole(x.opts.Store, key(keyHead), id, func(id string) bool {
		s, err := x.load(id)
		return err == nil && sees(s.Principal)
	})
	if err != nil {
		return nil, err
	}
	s, err := x.load(whole)
	if whole == "" || err == nil && !sees(s.Principal) {
		return nil, notFound(id)
	}
	return s, err
}

func (x *Sessions) count(status string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if status == statusFailed {
		x.ended.failed++
	} else {
		x.ended.done++
	}
}

// read returns a message by its seq. Those of a fork may be in the session that it comes from.
func (x *Sessions) read(h *head, seq uint64) (*Message, error) {
	for h.Fork != nil && seq <= h.Fork.Seq {
		origin, err := x.load(h.Fork.Session)
		if err != nil {
			return nil, err
		}
		h = &origin.head
	}
	e, err := x.opts.Store.Get(messageKey(h.ID, seq))
	if err != nil {
		return nil, err
	}
	if e.Revision == 0 {
		return nil, message.Errorf(404, "The session %s has no message %d", h.ID, seq)
	}
	m := new(Message)
	return m, json.Unmarshal(e.Value, m)
}

// each calls f with the stored messages after a seq, in order, until it returns false.
func (x *Sessions) each(h *head, after uint64, f func(seq uint64, text []byte) bool) error {
	if h.Fork != nil && after < h.Fork.Seq {
		origin, err := x.load(h.Fork.Session)
		if err != nil {
			return err
		}
		stopped := false
		err = x.each(&origin.head, after, func(seq uint64, text []byte) bool {
			if seq > h.Fork.Seq {
				return false
			}
			stopped = !f(seq, text)
			return !stopped
		})
		if err != nil || stopped {
			return err
		}
		after = h.Fork.Seq
	}
	for e, err := range x.opts.Store.Scan(store.Range{From: messageKey(h.ID, after+1), To: store.After(key(keyMessage, h.ID))}) {
		if err != nil {
			return err
		}
		if !f(binary.BigEndian.Uint64(e.Key[len(e.Key)-8:]), e.Value) {
			return nil
		}
	}
	return nil
}

// refer adds to a batch that the value of a key needs the blobs that data mentions.
func (x *Sessions) refer(b *store.Batch, data, key []byte) {
	if x.opts.Blobs != nil {
		x.opts.Blobs.Refer(b, data, key)
	}
}

func (x *Sessions) unrefer(b *store.Batch, data, key []byte) {
	if x.opts.Blobs != nil {
		x.opts.Blobs.Unrefer(b, data, key)
	}
}

// Restored notes that a store was restored from a backup: what open turns have done since isn't
// known, so they wait for Session.Continue. It reports whether there are any.
func Restored(s store.Store) (open bool, err error) {
	var b store.Batch
	queue := []byte{store.SpaceWork, queueLetter}
	b.DeleteRange(queue, store.After(queue))
	for e, err := range s.Scan(store.Prefix(key(keyTurn))) {
		if err != nil {
			return false, err
		}
		t, err := readTurn(e.Value)
		if err != nil {
			return false, err
		}
		open, t.Waiting = true, true
		b.Set(append([]byte(nil), e.Key...), jsonvalue.Marshal(&t))
	}
	_, err = s.Apply(&b)
	return open, err
}
