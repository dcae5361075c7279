package kernel

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/store"
)

// DefaultIdempotencyTTL is how long the outcome of a command with an idempotency key is
// kept.
const DefaultIdempotencyTTL = 24 * time.Hour

// flights are the commands with an idempotency key that are running. A second one with
// the same key waits for the first.
type flights struct {
	mu  sync.Mutex
	all map[string]*flight
}

type flight struct {
	key    string
	mark   [16]byte // of the command
	landed chan struct{}

	// What the store has under the key: an outcome that has expired, the call's own intent,
	// or nothing.
	revision store.Revision
	expires  int64
	intended bool
}

// An outcome that is kept: when it expires (8 bytes), the fingerprint of the command
// (16), what kind of outcome it is (1), and its data without secrets. The expiry is also
// in an index, so that what has expired is found without looking at the rest. An intent
// stands where the outcome will be, while a command runs whose effect is outside of the
// store.
const (
	keptReply  = 'r'
	keptError  = 'e'
	keptIntent = 'i'
	keptHead   = 8 + 16 + 1
)

func outcomeKey(key string) []byte {
	return append([]byte{store.SpaceIdempotency, 'k'}, key...)
}

func expiryKey(at int64, key string) []byte {
	k := binary.BigEndian.AppendUint64([]byte{store.SpaceIdempotency, 'x'}, uint64(at))
	return append(k, key...)
}

// idempotent reports whether the call must run once for its key.
func (c *Call) idempotent() bool {
	return c.request.Metadata.IdempotencyKey != "" && c.syscall.Kind == message.KindCommand && c.caller == nil
}

// embark sees to it that the handler runs only if no other call with the same key has
// run, or runs. If it may not, the call is settled: with the first outcome, or with an
// error.
func (c *Call) embark() (run bool) {
	if c.k.opts.Store == nil {
		c.emit(c.request.Fail(message.Errorf(503, "This kernel has no store, so it can't keep what an idempotency key promises; leave the key out")))
		return false
	}
	key := c.request.Metadata.IdempotencyKey
	mark, err := c.fingerprint()
	if err != nil {
		c.emit(c.failure(err))
		return false
	}
	f := &flight{key: key, mark: mark, landed: make(chan struct{})}
	for {
		c.k.flights.mu.Lock()
		other := c.k.flights.all[key]
		if other == nil {
			if c.k.flights.all == nil {
				c.k.flights.all = make(map[string]*flight)
			}
			c.k.flights.all[key] = f
		}
		c.k.flights.mu.Unlock()
		if other == nil {
			break
		}
		if other.mark != mark {
			c.emit(c.request.Fail(misused(key)))
			return false
		}
		select {
		case <-other.landed: // with an outcome that is kept, or with one that may be tried again
		case <-c.Done():
			err := c.Err()
			if errors.Is(err, context.DeadlineExceeded) {
				c.Expire()
			} else {
				e, _ := message.ErrorOf(err)
				c.Fail(e)
			}
			return false
		}
	}
	c.mu.Lock()
	if c.settled.Load() { // in the meantime
		c.mu.Unlock()
		c.k.land(f)
		return false
	}
	c.flight = f // it lands when the call is settled
	c.mu.Unlock()
	return c.look() && (c.syscall.Effect != External || c.intend())
}

// look looks at what is kept for the call's key, and reports whether the handler may run.
// If not, the call is settled.
func (c *Call) look() (run bool) {
	f := c.flight
	if f.intended {
		return true // nobody else can have an outcome
	}
	kept, err := c.k.opts.Store.Get(outcomeKey(f.key))
	switch {
	case err != nil:
		e, known := message.ErrorOf(err)
		if !known {
			c.k.opts.Log.Error("can't look for an outcome", "type", c.request.Type, "id", c.request.Metadata.ID, "error", err)
		}
		c.settleAs(c.request.Fail(e))
		return false
	case kept.Revision == 0:
		f.revision, f.expires = 0, 0
		return true
	case len(kept.Value) < keptHead:
		c.k.opts.Log.Error("an outcome in the store can't be read", "idempotencyKey", f.key)
		c.settleAs(c.request.Fail(message.Errorf(500, "The first outcome for the idempotency key %s is there and can't be read", quoted(f.key))))
		return false
	case expiry(kept.Value) <= time.Now().UnixMilli():
		f.revision, f.expires = kept.Revision, expiry(kept.Value)
		return true
	}
	c.again(kept.Value)
	return false
}

func expiry(kept []byte) int64 { return int64(binary.BigEndian.Uint64(kept)) }

// land ends a flight: those who wait for it look at what is kept.
func (k *Kernel) land(f *flight) {
	k.flights.mu.Lock()
	delete(k.flights.all, f.key)
	k.flights.mu.Unlock()
	close(f.landed)
}

// again settles the call with the outcome that the first one got, without its secrets.
func (c *Call) again(kept []byte) {
	m := c.request.Reply(kept[keptHead:])
	switch {
	case !bytes.Equal(kept[8:24], c.flight.mark[:]):
		m = c.request.Fail(misused(c.flight.key))
	case kept[24] == keptIntent:
		m = c.request.Fail(unknownOutcome(c.flight.key))
	case kept[24] == keptError:
		m = message.Message{Kind: message.KindError, Type: c.request.Type, Data: kept[keptHead:]}
	}
	// The first outcome may still be on its way to the disk.
	c.adopt(c.k.opts.Store.Barrier())
	c.settleAs(m)
}

// settleAs settles the call with an outcome that is not remembered.
func (c *Call) settleAs(m message.Message) {
	c.mu.Lock()
	c.overtaken, c.staged, c.replayed = false, nil, true
	c.mu.Unlock()
	c.emit(m)
}

func misused(key string) *message.Error {
	return &message.Error{Code: 422, Field: "metadata.idempotencyKey", Reason: message.ErrEnvelope,
		Message: "The idempotency key " + quoted(key) + " was used before for another command or other data; a new command needs a new key"}
}

// unknownOutcome is the error for a command that has begun, and of whose end nothing is
// known.
func unknownOutcome(key string) *message.Error {
	return &message.Error{Code: 409, Message: "The outcome of the command with the idempotency key " + quoted(key) +
		" is not known: it had begun, and the kernel ended before it could write down how it went. It may have happened, and is not run again; look, and if it has not, send it with a new key"}
}

func quoted(s string) string { return string(jsonscan.AppendQuoted(nil, message.Clip(s, 100))) }

// remember adds the outcome to a batch, if it is one that counts: a reply, or an error
// that is the caller's.
func (c *Call) remember(b *store.Batch, m *message.Message) {
	f := c.flight
	key := outcomeKey(f.key)
	kind := byte(keptReply)
	if m.Kind == message.KindError {
		kind = keptError
		if !callersFault(m) {
			if f.intended { // what comes next is another try
				b.Delete(key)
				b.Delete(expiryKey(f.expires, f.key))
			}
			return
		}
	}
	kept := *m
	kept.Data, _ = Redact(Record{Message: m, Syscall: c.syscall, call: c})
	kept.Data = c.small(&kept).Data
	c.keep(b, kind, kept.Data)
	if r, ok := c.k.opts.Blobs.(BlobOwners); ok {
		r.Refer(b, kept.Data, key)
	}
}

// keep adds to a batch what stands under the call's key from then on, and returns when it
// expires.
func (c *Call) keep(b *store.Batch, kind byte, data []byte) (expires int64) {
	f := c.flight
	expires = time.Now().Add(c.k.opts.IdempotencyTTL).UnixMilli()
	value := binary.BigEndian.AppendUint64(make([]byte, 0, keptHead+len(data)), uint64(expires))
	value = append(append(append(value, f.mark[:]...), kind), data...)
	if !f.intended { // then it has happened, and must not happen again because of a condition
		b.IfRevision(outcomeKey(f.key), f.revision)
	}
	b.Set(outcomeKey(f.key), value)
	if f.revision != 0 {
		b.Delete(expiryKey(f.expires, f.key))
	}
	b.Set(expiryKey(expires, f.key), nil)
	return expires
}

// callersFault reports whether an error would be the same the next time. Of the 4xx, three
// would not: the call was cancelled, it took too long, it came too often.
func callersFault(m *message.Message) bool {
	e := m.Err
	if e == nil {
		var err error
		if e, err = message.ParseError(m.Data); err != nil {
			return false
		}
	}
	return e.Code >= 400 && e.Code < 500 && e.Code != 499 && e.Code != 408 && e.Code != 429
}

// fingerprint tells commands apart. It is made with a key of the store's own, so that it
// says nothing about a secret to who has not got the store. How the data is spelt does not
// count.
func (c *Call) fingerprint() (mark [16]byte, err error) {
	key, err := c.k.markKey()
	if err != nil {
		return mark, err
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(c.syscall.Type))
	h.Write([]byte{0})
	h.Write(jsonscan.AppendCanonical(nil, c.request.Data))
	copy(mark[:], h.Sum(nil))
	return mark, nil
}

// markKey returns the key of fingerprints, which is made when it is first needed.
func (k *Kernel) markKey() ([]byte, error) {
	if key := k.marks.Load(); key != nil {
		return *key, nil
	}
	name := []byte{store.SpaceIdempotency, 's'}
	for {
		e, err := k.opts.Store.Get(name)
		if err != nil {
			return nil, err
		}
		if e.Revision != 0 {
			k.marks.Store(&e.Value)
			return e.Value, nil
		}
		fresh := make([]byte, 32)
		_, _ = rand.Read(fresh) // never fails
		var b store.Batch
		b.IfAbsent(name)
		b.Set(name, fresh)
		if _, err := k.opts.Store.Apply(&b); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	}
}

// Sweep forgets the outcomes that have expired and returns how many there were.
func (k *Kernel) Sweep(ctx context.Context, now time.Time) (int, error) {
	if k.opts.Store == nil {
		return 0, nil
	}
	const step = 1000
	swept := 0
	for ctx.Err() == nil {
		var b store.Batch
		found := 0
		upTo := store.Range{From: []byte{store.SpaceIdempotency, 'x'}, To: expiryKey(now.UnixMilli()+1, "")}
		for e, err := range k.opts.Store.Scan(upTo) {
			if err != nil {
				return swept, err
			}
			key := bytes.Clone(e.Key)
			b.Delete(key)
			at, name := key[2:10], string(key[10:])
			kept, err := k.opts.Store.Get(outcomeKey(name))
			if err != nil {
				return swept, err
			}
			// Unless it was used again since.
			if kept.Revision != 0 && len(kept.Value) >= keptHead && bytes.Equal(kept.Value[:8], at) {
				b.IfRevision(outcomeKey(name), kept.Revision)
				b.Delete(outcomeKey(name))
				if r, ok := k.opts.Blobs.(BlobOwners); ok {
					r.Unrefer(&b, kept.Value[keptHead:], outcomeKey(name))
				}
			}
			if found++; found == step {
				break
			}
		}
		if b.Empty() {
			return swept, nil
		}
		commit, err := k.opts.Store.Apply(&b)
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
