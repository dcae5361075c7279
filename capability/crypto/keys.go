package crypto

import (
	"context"
	"runtime/debug"
	"time"

	"kernos/internal/sealed"
	"kernos/message"
)

// slot is a place for a key: whose it is, and the how-manieth form of its signature it is
// derived from. The zero slot is for the key that seals if nobody names one.
type slot struct {
	kid sealed.Kid
	nth int
}

// key is a key that is ready.
type key struct {
	kid     sealed.Kid
	kind    string // of the SSH key, or ""
	forms   int    // how many its signature can have
	cipher  *sealed.Cipher
	expires time.Time
}

// flight is a derivation that is under way. All who want the key wait for the same one.
type flight struct {
	done chan struct{}
	key  *key
	err  error
}

// maxFlights is how many derivations may wait for the agent.
const maxFlights = 64

// key returns the key of a slot. It is derived if it is not there, or has been for too
// long, by a goroutine that goes on when ctx ends, for the others who want it.
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
	f := k.flights[s]
	if f == nil {
		if len(k.flights) >= maxFlights {
			k.mu.Unlock()
			return nil, message.Errorf(503, "%d requests for other keys wait for ssh-agent: try again", maxFlights)
		}
		f = &flight{done: make(chan struct{})}
		k.flights[s] = f
		k.work.Go(func() { k.fly(s, f) })
	}
	k.mu.Unlock()
	select {
	case <-f.done:
		return f.key, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fly does one derivation, and lands it.
func (k *Keyring) fly(s slot, f *flight) {
	ctx, cancel := context.WithTimeout(k.life, k.opts.Timeout)
	defer cancel()
	f.key, f.err = k.contained(ctx, s)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.flights, s)
	if f.err == nil && k.life.Err() == nil {
		f.key.expires = time.Now().Add(k.opts.Keep)
		k.keys[s] = f.key
		k.keys[slot{kid: f.key.kid, nth: s.nth}] = f.key
	}
	close(f.done)
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

// derive gets the key of a slot from where it comes from.
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
	if ctx.Err() != nil { // both came at once
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
