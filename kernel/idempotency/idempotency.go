// Package idempotency makes a command with an idempotency key run once: it knows which keys
// are running, and keeps the outcomes of those that have run in a store.
//
//	run, err := runs.Begin(ctx, key, t, data)  // waits while the same command runs
//	kept, err := run.Lookup()                  // the first outcome, if there is one
//	…                                          // run the command
//	run.Keep(batch, idempotency.Reply, data)   // with its effect, in one batch
//	run.End()
package idempotency

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/store"
)

// Runs are the commands with an idempotency key that run, and the outcomes that are kept. It
// is safe for concurrent use.
type Runs struct {
	store store.Store
	ttl   time.Duration

	mu      sync.Mutex
	running map[string]*Run

	secret atomic.Pointer[[]byte] // the key of fingerprints; nil until it is needed
}

// New returns the runs over a store, which keeps outcomes for so long.
func New(s store.Store, ttl time.Duration) *Runs {
	return &Runs{store: s, ttl: ttl, running: make(map[string]*Run)}
}

// A Key is an idempotency key. Keys of different scopes are different keys.
type Key struct {
	Scope string // "" or one that has no zero byte
	Text  string // the key as it was sent
}

// stored returns the key as it is in the store.
func (k Key) stored() string {
	if k.Scope == "" {
		return k.Text
	}
	return "\x00" + k.Scope + "\x00" + k.Text
}

// A Run is a command with an idempotency key that is running. No other one with this key is.
type Run struct {
	runs        *Runs
	key         string   // the key as it is stored
	shown       string   // the key as it was sent
	fingerprint [16]byte // a hash of the command
	ended       chan struct{}
	work        bool // set by OfWork

	// What the store has under the key: an outcome that has expired, the run's own intent,
	// or nothing.
	revision store.Revision
	expires  int64
	intended bool
}

// A Kind is what is kept under a key.
type Kind byte

const (
	Reply  Kind = 'r'
	Error  Kind = 'e'
	intent Kind = 'i' // a command has begun; the outcome replaces it
)

// An outcome in the store: when it expires (8 bytes), the fingerprint of the command (16), its
// kind (1), and its data without secrets. The expiry is also in an index, so that what has
// expired is found without looking at the rest.
const head = 8 + 16 + 1

func outcomeKey(key string) []byte {
	return append([]byte{store.SpaceIdempotency, 'k'}, key...)
}

func expiryKey(at int64, key string) []byte {
	k := binary.BigEndian.AppendUint64([]byte{store.SpaceIdempotency, 'x'}, uint64(at))
	return append(k, key...)
}

func expiry(kept []byte) int64 { return int64(binary.BigEndian.Uint64(kept)) }

// Begin begins a run. If a command with this key is running, Begin waits for its end. The
// error is a 422 if that is another command, or that of ctx or the store.
func (r *Runs) Begin(ctx context.Context, key Key, t message.Type, data []byte) (*Run, error) {
	f, err := r.fingerprint(t, data)
	if err != nil {
		return nil, err
	}
	run := &Run{runs: r, key: key.stored(), shown: key.Text, fingerprint: f, ended: make(chan struct{})}
	for {
		r.mu.Lock()
		other := r.running[run.key]
		if other == nil {
			r.running[run.key] = run
		}
		r.mu.Unlock()
		switch {
		case other == nil:
			return run, nil
		case other.fingerprint != f:
			return nil, misused(key.Text)
		}
		select {
		case <-other.ended: // the outcome is kept, or the command may be tried again
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// End ends the run. Calls that wait for it then look at what is kept.
func (run *Run) End() {
	run.runs.mu.Lock()
	delete(run.runs.running, run.key)
	run.runs.mu.Unlock()
	close(run.ended)
}

// Key returns where the outcome is in the store.
func (run *Run) Key() []byte { return outcomeKey(run.key) }

// A Kept is what the command with a key has come to: data of a kind or, if that is not
// known, or if it was another command, an error.
type Kept struct {
	Kind Kind
	Data []byte
	Err  *message.Error
}

// Lookup returns what is kept for the key; nil if the command may run. What is found may be on
// its way to the disk.
func (run *Run) Lookup() (*Kept, error) {
	if run.intended {
		return nil, nil // no other command can have an outcome
	}
	e, err := run.runs.store.Get(run.Key())
	switch v := e.Value; {
	case err != nil:
		return nil, err
	case e.Revision == 0:
		run.revision, run.expires = 0, 0
		return nil, nil
	case len(v) < head:
		return nil, message.Errorf(500, "The first outcome for the idempotency key %s is there and can't be read", showKey(run.shown))
	case expiry(v) <= time.Now().UnixMilli():
		run.revision, run.expires = e.Revision, expiry(v)
		return nil, nil
	case !bytes.Equal(v[8:24], run.fingerprint[:]):
		return &Kept{Err: misused(run.shown)}, nil
	case Kind(v[24]) == intent:
		run.revision, run.expires = e.Revision, expiry(v)
		return &Kept{Err: unknownOutcome(run.shown)}, nil
	default:
		return &Kept{Kind: Kind(v[24]), Data: v[head:]}, nil
	}
}

// OfWork notes that the run is a part of some work, which keeps the outcome itself, in one batch
// with the effect: an intent then doesn't expire, however long the kernel doesn't run, and Drop
// takes the place of Keep.
func (run *Run) OfWork() { run.work = true }

// Drop adds to a batch that nothing stands under the key.
func (run *Run) Drop(b *store.Batch) {
	if run.revision != 0 {
		b.Delete(run.Key())
		b.Delete(expiryKey(run.expires, run.key))
	}
}

// Keep adds to a batch what stands under the key from then on.
func (run *Run) Keep(b *store.Batch, kind Kind, data []byte) (expires int64) {
	expires = time.Now().Add(run.runs.ttl).UnixMilli()
	if run.work {
		expires = math.MaxInt64
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, head+len(data)), uint64(expires))
	value = append(append(append(value, run.fingerprint[:]...), byte(kind)), data...)
	if !run.intended { // an intended command has happened, and a failed condition must not run it again
		b.IfRevision(run.Key(), run.revision)
	}
	b.Set(run.Key(), value)
	if run.revision != 0 {
		b.Delete(expiryKey(run.expires, run.key))
	}
	b.Set(expiryKey(expires, run.key), nil)
	return expires
}

// Forget adds to a batch that nothing stands under the key: the next command is another try.
func (run *Run) Forget(b *store.Batch) {
	if run.intended {
		b.Delete(run.Key())
		b.Delete(expiryKey(run.expires, run.key))
	}
}

// An Intent is the note that a command has begun whose effect is not in the store. The outcome
// takes its place. An intent without a run belongs to a command of which it is not known how
// it ended: the process did first, or the store took no outcome.
type Intent struct {
	Commit  *store.Commit
	run     *Run
	expires int64
}

// Intend notes in the store that the command begins. The error is store.ErrConflict if Lookup
// has to look again.
func (run *Run) Intend() (*Intent, error) {
	var b store.Batch
	expires := run.Keep(&b, intent, nil)
	commit, err := run.runs.store.Apply(&b)
	if err != nil {
		return nil, err
	}
	return &Intent{commit, run, expires}, nil
}

// Accept notes that the command is going to run.
func (i *Intent) Accept() {
	i.run.revision, i.run.expires, i.run.intended = i.Commit.Revision, i.expires, true
}

// Withdraw takes the intent back: the command does not run.
func (i *Intent) Withdraw() error {
	var b store.Batch
	b.IfRevision(i.run.Key(), i.Commit.Revision)
	b.Delete(i.run.Key())
	b.Delete(expiryKey(i.expires, i.run.key))
	_, err := i.run.runs.store.Apply(&b)
	return err
}

func misused(key string) *message.Error {
	return &message.Error{Code: 422, Field: "metadata.idempotencyKey", Reason: message.ErrEnvelope,
		Message: "The idempotency key " + showKey(key) + " was used before for another command or other data; a new command needs a new key"}
}

// unknownOutcome returns the error for a command that has begun, and whose outcome was not recorded.
func unknownOutcome(key string) *message.Error {
	return &message.Error{Code: 409, Message: "The outcome is not known (the command with the idempotency key " + showKey(key) +
		" had begun, and was not done in time, or the program that served it left, or the kernel ended before it could write down how it went). It may have happened, and is not run again; look, and if it has not, send it with a new key"}
}

// showKey returns a key as errors show it.
func showKey(s string) string { return string(jsonscan.AppendQuoted(nil, message.Clip(s, 100))) }

// Repeats reports whether an error would be the same the next time, and is kept: it is the
// caller's. Of the 4xx, three would not: the call was cancelled, it took too long, it came too
// often.
func Repeats(e *message.Error) bool {
	return e.Code >= 400 && e.Code < 500 && e.Code != 499 && e.Code != 408 && e.Code != 429
}

// Unknown reports whether an error leaves open whether the command has had its effect: it was
// given up before it had answered, or what it depends on was.
func Unknown(e *message.Error) bool {
	for ; e != nil; e = e.Cause {
		if e.Code == 504 || e.Code == 499 || errors.Is(e.Reason, ErrUnknown) {
			return true
		}
	}
	return false
}

// ErrUnknown is the reason of an error that leaves open whether the effect has happened.
var ErrUnknown = errors.New("it isn't known whether the effect has happened")

// fingerprint returns a hash that distinguishes commands. It is made with a key of the store's own, so that it
// reveals nothing about a secret to a reader without the store. How the data is spelt
// does not count.
func (r *Runs) fingerprint(t message.Type, data []byte) (f [16]byte, err error) {
	secret, err := r.secretKey()
	if err != nil {
		return f, err
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(t))
	h.Write([]byte{0})
	h.Write(jsonscan.AppendCanonical(nil, data))
	copy(f[:], h.Sum(nil))
	return f, nil
}

// secretKey returns the key of fingerprints, which is made when it is first needed.
func (r *Runs) secretKey() ([]byte, error) {
	if key := r.secret.Load(); key != nil {
		return *key, nil
	}
	name := []byte{store.SpaceIdempotency, 's'}
	for {
		e, err := r.store.Get(name)
		if err != nil {
			return nil, err
		}
		if e.Revision != 0 {
			r.secret.Store(&e.Value)
			return e.Value, nil
		}
		fresh := make([]byte, 32)
		_, _ = rand.Read(fresh) // never fails
		var b store.Batch
		b.IfAbsent(name)
		b.Set(name, fresh)
		if _, err := r.store.Apply(&b); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	}
}

// Sweep forgets the outcomes that have expired and returns how many there were. forgotten is
// called for each, with its key in the store, and may add to the batch.
func (r *Runs) Sweep(ctx context.Context, now time.Time, forgotten func(b *store.Batch, data, key []byte)) (int, error) {
	swept := 0
	for ctx.Err() == nil {
		var b store.Batch
		found, err := r.sweepInto(&b, now, forgotten)
		if err != nil || found == 0 {
			return swept, err
		}
		commit, err := r.store.Apply(&b)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			err = commit.Wait(ctx)
		}
		if err != nil {
			return swept, err
		}
		swept += found
	}
	return swept, ctx.Err()
}

// sweepInto adds some of the outcomes that have expired to a batch that forgets them.
func (r *Runs) sweepInto(b *store.Batch, now time.Time, forgotten func(b *store.Batch, data, key []byte)) (found int, err error) {
	const step = 1000
	upTo := store.Range{From: []byte{store.SpaceIdempotency, 'x'}, To: expiryKey(now.UnixMilli()+1, "")}
	for e, err := range r.store.Scan(upTo) {
		if err != nil {
			return found, err
		}
		indexed := bytes.Clone(e.Key)
		b.Delete(indexed)
		at, key := indexed[2:10], outcomeKey(string(indexed[10:]))
		kept, err := r.store.Get(key)
		if err != nil {
			return found, err
		}
		// Unless the key was used again since.
		if kept.Revision != 0 && len(kept.Value) >= head && bytes.Equal(kept.Value[:8], at) {
			b.IfRevision(key, kept.Revision)
			b.Delete(key)
			forgotten(b, kept.Value[head:], key)
		}
		if found++; found == step {
			break
		}
	}
	return found, nil
}
