package crypto

import (
	"context"
	"runtime/debug"
	"time"

	"kernos/internal/sealed"
	"kernos/message"
)

// slot identifies a derived key: the SSH key, and the number of the form of its signature.
// The zero slot is the key that seals by default.
type slot struct {
	kid sealed.Kid
	nth int
}

type key struct {
	kid     sealed.Kid
	kind    string // type of the SSH key, or ""
	forms   int    // how many forms its signature can have
	cipher  *sealed.Cipher
	expires time.Time
}

// derivation is a running derivation of a key. All callers that need the key wait for it.
type derivation struct {
	done chan struct{}
	key  *key
	err  error
}

// maxRunning is how many derivations may wait for the agent.
const maxRunning = 64

// key returns the key of a slot. If it is missing or too old, a goroutine derives it, which
// continues for other callers when ctx ends.
func (k *Keyring) key(ctx context.Context, s slot) (*key, error) {
	k.mu.Lock()
	if k.life.Err() != nil {
		k.mu.Unlock()
		return nil, errStopping
	}
	if found := k.keys[s]; found != nil {
		if time.Now().Before(found.expires) {
			k.mu.Unlock()
			return found, nil
		}
		delete(k.keys, s)
	}
	d := k.running[s]
	if d == nil {
		if len(k.running) >= maxRunning {
			k.mu.Unlock()
			return nil, message.Errorf(503, "%d requests for other keys are waiting for ssh-agent; try again", maxRunning)
		}
		d = &derivation{done: make(chan struct{})}
		k.running[s] = d
		k.work.Go(func() { k.run(s, d) })
	}
	k.mu.Unlock()
	select {
	case <-d.done:
		return d.key, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (k *Keyring) run(s slot, d *derivation) {
	ctx, cancel := context.WithTimeout(k.life, agentTimeout)
	defer cancel()
	d.key, d.err = k.contained(ctx, s)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, s)
	if d.err == nil && k.life.Err() == nil {
		d.key.expires = time.Now().Add(keepTime)
		k.keys[s] = d.key
		k.keys[slot{kid: d.key.kid, nth: s.nth}] = d.key
	}
	close(d.done)
}

// contained is derive without its panics: an agent may send anything.
func (k *Keyring) contained(ctx context.Context, s slot) (found *key, err error) {
	defer func() {
		if p := recover(); p != nil {
			k.opts.Log.Error("deriving a key panicked", "stack", string(debug.Stack()))
			found, err = nil, message.Errorf(500, "Internal error; the kernel's log has the details")
		}
	}()
	return k.derive(ctx, s)
}

func (k *Keyring) derive(ctx context.Context, s slot) (*key, error) {
	chosen := s.kid == sealed.Kid{}
	if s.kid.Source == sealed.Local || chosen && k.opts.Agent == nil && !k.opts.RequireAgent {
		return k.load(s.kid)
	}
	if k.opts.Agent == nil {
		if chosen {
			return nil, errNoAgent
		}
		return nil, message.Errorf(503, "The key %s is needed: %w", s.kid, errNoAgent)
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, k.late()
	}
	if ctx.Err() != nil { // the answer and the deadline came at once
		return nil, k.late()
	}
	return k.ask(ctx, s)
}

// newCipher makes the cipher of what a secret stands for, and erases the secret. What the
// cipher itself keeps is in Go's memory, and goes with it.
func newCipher(secret []byte) (*sealed.Cipher, error) {
	defer clear(secret)
	derived, err := sealed.Derive(secret)
	if err != nil {
		return nil, err
	}
	defer clear(derived)
	return sealed.NewCipher(derived)
}
