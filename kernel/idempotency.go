package kernel

import (
	"bytes"
	"context"
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
	print  [16]byte
	landed chan struct{}

	// What the store had under the key before: an outcome that has expired, or nothing.
	revision store.Revision
	expired  int64
}

// An outcome that is kept: when it expires (8 bytes), the fingerprint of the command
// (16), what kind of outcome it is (1), and its data without secrets. The expiry is also
// in an index, so that what has expired is found without looking at the rest.
const (
	keptReply = 'r'
	keptError = 'e'
	keptHead  = 8 + 16 + 1
)

func outcomeKey(key string) []byte {
	return append([]byte{store.SpaceIdempotency, 'k'}, key...)
}

func expiryKey(at int64, key string) []byte {
	k := binary.BigEndian.AppendUint64([]byte{store.SpaceIdempotency, 'x'}, uint64(at))
	return append(k, key...)
}

// idempotent reports whether the call must run once for its key.
func (c *call) idempotent() bool {
	return c.request.Metadata.IdempotencyKey != "" && c.syscall.Kind == message.KindCommand && c.caller == nil
}

// embark sees to it that the handler runs only if no other call with the same key has
// run, or runs. If it may not, the call is settled: with the first outcome, or with an
// error.
func (c *call) embark() (run bool) {
	if c.k.opts.Store == nil {
		c.emit(c.request.Fail(message.Errorf(503, "This kernel has no store, so it can't keep what an idempotency key promises; leave the key out")))
		return false
	}
	key := c.request.Metadata.IdempotencyKey
	print := c.fingerprint()
	f := &flight{key: key, print: print, landed: make(chan struct{})}
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
		if other.print != print {
			c.emit(c.request.Fail(misused(key)))
			return false
		}
		select {
		case <-other.landed: // with an outcome that is kept, or with one that may be tried again
		case <-c.Done():
			err := c.Err()
			if errors.Is(err, context.DeadlineExceeded) {
				c.expire()
			} else {
				e, _ := message.ErrorOf(err)
				c.emit(c.request.Fail(e))
			}
			return false
		}
	}
	kept, err := c.k.opts.Store.Get(outcomeKey(key))
	switch {
	case err != nil:
		c.k.land(f)
		c.emit(c.failure(err))
		return false
	case kept.Revision == 0:
	case len(kept.Value) < keptHead:
		c.k.land(f)
		c.k.opts.Log.Error("an outcome in the store can't be read", "idempotencyKey", key)
		c.emit(c.request.Fail(message.Errorf(500, "The first outcome for the idempotency key %q is there and can't be read", key)))
		return false
	case int64(binary.BigEndian.Uint64(kept.Value)) <= time.Now().UnixMilli():
		f.revision, f.expired = kept.Revision, int64(binary.BigEndian.Uint64(kept.Value))
	default:
		c.k.land(f)
		c.again(key, print, kept.Value)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled.Load() { // in the meantime
		c.k.land(f)
		return false
	}
	c.flight = f
	return true
}

// land ends a flight: those who wait for it look at what is kept.
func (k *Kernel) land(f *flight) {
	k.flights.mu.Lock()
	delete(k.flights.all, f.key)
	k.flights.mu.Unlock()
	close(f.landed)
}

// again settles the call with the outcome that the first one got, without its secrets.
func (c *call) again(key string, print [16]byte, kept []byte) {
	m := c.request.Reply(kept[keptHead:])
	switch {
	case !bytes.Equal(kept[8:24], print[:]):
		m = c.request.Fail(misused(key))
	case kept[24] == keptError:
		m = message.Message{Kind: message.KindError, Type: c.request.Type, Data: kept[keptHead:]}
	}
	c.mu.Lock()
	c.replayed = true
	// The first outcome may still be on its way to the disk.
	c.owed = later(c.owed, c.k.opts.Store.Barrier())
	c.mu.Unlock()
	c.emit(m)
}

func misused(key string) *message.Error {
	return &message.Error{Code: 422, Field: "metadata.idempotencyKey", Envelope: true,
		Message: "The idempotency key " + quoted(key) + " was used before for another command or other data; a new command needs a new key"}
}

func quoted(s string) string { return string(jsonscan.AppendQuoted(nil, message.Clip(s, 100))) }

// remember adds the outcome to a batch, if it is one that counts: a reply, or an error
// that is the caller's. It is called with mu held.
func (c *call) remember(b *store.Batch, m *message.Message) {
	kind := byte(keptReply)
	if m.Kind == message.KindError {
		kind = keptError
		if !callersFault(m) {
			return
		}
	}
	kept := *m
	kept.Data, _ = Redact(Record{Message: m, Syscall: c.syscall})
	// If it can't be made small it is kept as it is, since a retry must find it.
	if small := c.k.small(c, &kept); small.Kind == kept.Kind {
		kept.Data = small.Data
	}
	f := c.flight
	at := time.Now().Add(c.k.opts.IdempotencyTTL).UnixMilli()
	value := binary.BigEndian.AppendUint64(make([]byte, 0, keptHead+len(kept.Data)), uint64(at))
	value = append(append(append(value, f.print[:]...), kind), kept.Data...)
	key := outcomeKey(f.key)
	b.IfRevision(key, f.revision)
	b.Set(key, value)
	b.Set(expiryKey(at, f.key), nil)
	if f.revision != 0 {
		b.Delete(expiryKey(f.expired, f.key))
	}
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

// fingerprint tells commands apart. It is of the data as it may be kept, so that it says
// nothing about a secret; white space does not count.
func (c *call) fingerprint() (print [16]byte) {
	data, _ := Redact(Record{Message: &c.request, Syscall: c.syscall})
	h := sha256.New()
	h.Write([]byte(c.syscall.Type))
	h.Write([]byte{0})
	h.Write(jsonscan.AppendCompact(nil, data))
	sum := h.Sum(nil)
	copy(print[:], sum)
	return print
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
