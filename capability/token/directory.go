package token

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// DefaultName is the name of the token that the home begins with. Its secret is in a file of
// the home.
const DefaultName = "default"

// maxTokens bounds how many tokens there are.
const maxTokens = 10_000

// An entry is a token as it is stored. Its secret is not: a hash of it is enough to recognise
// it, and a secret of 32 random bytes can't be guessed from it. A browser has a key in place of a secret.
type entry struct {
	ID      principal.ID    `json:"id"`
	Name    string          `json:"name"`
	Hash    []byte          `json:"hash,omitempty"`
	Key     *Key            `json:"key,omitempty"`
	Created int64           `json:"created"`
	Rotated int64           `json:"rotated,omitempty"`
	Grant   principal.Grant `json:"grant"`
}

// A File has the secret of the default token.
type File interface {
	// Value returns the secret. It is called for every connection.
	Value() (string, error)

	// Replace puts a new secret into the file.
	Replace() error
}

// A Directory knows the tokens of a home, and the principals that they stand for. It is safe
// for concurrent use.
//
// The tokens are few, and all of them are in memory. What the syscalls change takes effect when it
// is durable, just before their reply is sent: if the disk fails, a token stays as it was. Only a
// revocation acts at once.
type Directory struct {
	opts   Options
	expiry *time.Timer

	mu       sync.Mutex
	loaded   bool
	file     File // the default token's file; nil if there is no default token
	byName   map[string]*holder
	byHash   map[[sha256.Size]byte]*holder
	changing map[string]bool      // the names of tokens whose change is not durable yet
	fallback *principal.Principal // the principal of the default token
	secret   string               // the default token's secret when it was used last
}

// Options are the settings of a Directory.
type Options struct {
	Store store.Reader       // where the tokens are; it is read when they are needed
	Ended func(principal.ID) // is called for each token that is revoked or expires; may be nil
	Now   func() time.Time   // nil means time.Now
}

// A holder is a token with the principal that connections act for.
type holder struct {
	entry
	principal *principal.Principal
	lent      *loan // nil unless connections of the browser act for the owner
	used      int64 // when a browser has proved its key for the last time, in milliseconds since 1970
}

// end ends what acts for the token.
func (h *holder) end(reason error) {
	h.principal.End(reason)
	if h.lent != nil {
		h.lent.owner.End(reason)
	}
}

// New returns the tokens of a store. The caller closes the directory.
func New(o *Options) *Directory {
	d := &Directory{
		opts: *o, fallback: newDefault(),
		byName: make(map[string]*holder), byHash: make(map[[sha256.Size]byte]*holder), changing: make(map[string]bool),
	}
	if d.opts.Now == nil {
		d.opts.Now = time.Now
	}
	d.mu.Lock() // expire may begin before expiry is set
	defer d.mu.Unlock()
	d.expiry = time.AfterFunc(time.Hour, d.expire)
	return d
}

// SetFile sets where the secret of the default token is.
func (d *Directory) SetFile(f File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.file = f
}

// lock locks the directory, and reads the tokens unless they were read before. The caller calls
// mu.Unlock, unless there is an error.
func (d *Directory) lock() error {
	d.mu.Lock()
	err := d.load()
	if err != nil {
		d.mu.Unlock()
	}
	return err
}

func (d *Directory) load() error {
	if d.loaded {
		return nil
	}
	for e, err := range d.opts.Store.Scan(store.Prefix([]byte{store.SpaceTokens})) {
		if err != nil {
			return err
		}
		h := new(holder)
		if err := json.Unmarshal(e.Value, &h.entry); err != nil || h.Key == nil && len(h.Hash) != sha256.Size {
			return fmt.Errorf("the token %q can't be read; it was written by a newer version, or is damaged", e.Key[1:])
		}
		if h.principal, err = principal.New(h.ID, h.Name, h.Grant); err != nil {
			return fmt.Errorf("the token %q can't be read: %w", h.Name, err)
		}
		d.add(h)
	}
	d.loaded = true
	d.expiry.Reset(time.Millisecond)
	return nil
}

func newDefault() *principal.Principal {
	p, err := principal.New(principal.DefaultID, DefaultName, principal.Grant{Preset: principal.Agent})
	if err != nil {
		panic(err) // can't happen: the grant is a constant
	}
	return p
}

// Close stops the timer of expiries. The principals stay valid.
func (d *Directory) Close() { d.expiry.Stop() }

// Default returns the principal of the default token.
func (d *Directory) Default() *principal.Principal {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fallback
}

// Authenticate returns the principal that a secret stands for, or nil if there is none. The
// error is that of the store, or of the default token's file.
func (d *Directory) Authenticate(secret string) (*principal.Principal, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if h := d.byHash[sha256.Sum256([]byte(secret))]; h != nil {
		if !d.lives(h) {
			return nil, nil
		}
		return h.principal, nil
	}
	if d.file == nil {
		return nil, nil
	}
	current, err := d.file.Value()
	if err != nil {
		return nil, err
	}
	if d.secret != "" && d.secret != current {
		d.renewDefault()
	}
	d.secret = current
	if subtle.ConstantTimeCompare([]byte(secret), []byte(current)) == 0 {
		return nil, nil
	}
	return d.fallback, nil
}

// lives reports whether a token is neither revoked nor expired. mu is held.
func (d *Directory) lives(h *holder) bool {
	if h.principal.Expired(d.opts.Now()) {
		h.end(principal.ErrExpired)
	}
	return h.principal.Life().Err() == nil
}

// Find returns the principal of an id as it is now, or nil if it no longer exists. The error
// is that of the store.
func (d *Directory) Find(id principal.ID) (*principal.Principal, error) {
	if id == principal.OwnerID {
		return principal.TheOwner(), nil
	}
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	var found *principal.Principal
	for i, part := range id.Parts() {
		one := d.current(part)
		switch {
		case one == nil:
			return nil, nil
		case i == 0:
			found = one
		default:
			found = principal.Both(found, one)
		}
	}
	return found, nil
}

// Named returns the principal of the token of a name. The error is a 404, or that of the store.
func (d *Directory) Named(name string) (*principal.Principal, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if name == DefaultName {
		return d.fallback, nil
	}
	h, err := d.find(name, "kernos token create "+message.Clip(name, 64)+" makes it")
	if err != nil {
		return nil, err
	}
	return h.principal, nil
}

// current returns the principal of a token, or nil. mu is held.
func (d *Directory) current(id principal.ID) *principal.Principal {
	if id == principal.DefaultID {
		return d.fallback
	}
	for _, h := range d.byName {
		if h.ID == id {
			return h.principal
		}
	}
	return nil
}

// renewDefault ends what acts for the default token. It keeps its ID: what it has stored is
// still its own. mu is held, as for the functions below.
func (d *Directory) renewDefault() {
	d.fallback.End(principal.ErrRevoked)
	d.fallback = newDefault()
}

func (d *Directory) add(h *holder) {
	d.byName[h.Name] = h
	if h.Key == nil && !h.cookie() {
		d.byHash[[sha256.Size]byte(h.Hash)] = h
	}
	if d.opts.Ended != nil {
		context.AfterFunc(h.principal.Life(), func() { d.opts.Ended(h.ID) })
	}
}

func (d *Directory) remove(h *holder) {
	delete(d.byName, h.Name)
	if h.Key == nil {
		delete(d.byHash, [sha256.Size]byte(h.Hash))
	}
}

// change stages a change of the token of a name. done is called with mu held when the change is
// durable. Until then, another change of the token is refused: it would begin with what the token
// is, and not with what it becomes.
func (d *Directory) change(ctx context.Context, name string, b *store.Batch, done func()) error {
	if d.changing[name] {
		return message.Errorf(409, "The token %q is being changed by another request; try again when that is done", name)
	}
	if err := kernel.Stage(ctx, b); err != nil {
		return err
	}
	d.changing[name] = true
	kernel.WhenDecided(ctx, func(err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.changing, name)
		if err == nil {
			done()
		}
	})
	return nil
}

// findOwn returns a token that the owner has made: the default one can't be changed.
func (d *Directory) findOwn(name string) (*holder, error) {
	if name == DefaultName {
		return nil, message.Errorf(409, "The default token can be neither changed nor revoked; kernos token --new replaces it")
	}
	return d.find(name, "")
}

// find returns the token of a name, or a 404 that names the others, and the next step: "" means to make a first token, if there
// is none.
func (d *Directory) find(name, next string) (*holder, error) {
	if h := d.byName[name]; h != nil {
		return h, nil
	}
	parts := []string{fmt.Sprintf("The token %q doesn't exist", message.Clip(name, 64))}
	names := slices.Sorted(maps.Keys(d.byName))
	if near := nearest.Names(name, names); len(near) > 0 {
		names = near
	}
	switch {
	case len(names) == 1:
		parts = append(parts, "there is "+names[0])
	case len(names) > 0:
		parts = append(parts, "there are "+message.Clip(strings.Join(names, ", "), 200))
	case next == "":
		next = "there are no named tokens yet: kernos token create NAME makes one"
	}
	if next != "" {
		parts = append(parts, next)
	}
	return nil, &message.Error{Code: 404, Message: strings.Join(parts, "; ")}
}

// loanCheck is how often it is checked whether a browser still acts for the owner: a timer stands still while the machine sleeps.
const loanCheck = time.Minute

// expire ends the tokens whose time is over, and sets the timer to the next one.
func (d *Directory) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.opts.Now()
	next := time.Hour // a clock that is set forward is noticed by then
	for _, h := range d.byName {
		if l := h.lent; l != nil && l.over(now) {
			l.owner.End(principal.ErrLent)
			h.lent = nil
		} else if l != nil {
			next = min(next, l.until.Sub(now), loanCheck)
		}
		switch {
		case h.Grant.Expires == 0:
		case h.principal.Expired(now):
			h.end(principal.ErrExpired)
		default:
			next = min(next, time.UnixMilli(h.Grant.Expires).Sub(now))
		}
	}
	d.expiry.Reset(max(next, time.Millisecond))
}

func (h *holder) key() []byte { return append([]byte{store.SpaceTokens}, h.Name...) }

// newSecret returns a secret with its hash.
func newSecret() (secret string, hash []byte) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // rand.Read never fails
	secret = prefix + base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(secret))
	return secret, sum[:]
}

// prefix begins the secret of every token that the kernel makes, so that a token in a text
// is recognised as one.
const prefix = "kernos_"

func newID(now time.Time) principal.ID {
	return principal.ID(ulid.MustNew(ulid.Timestamp(now), rand.Reader).String())
}
