package register

import (
	"encoding/json"
	"fmt"

	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// A name belongs to the principal that registered it first, until that gives it back with
// Syscall.Unregister or ends: a program that restarts, or whose kernel does, finds its name free,
// and the program of another principal doesn't.

// claims are the claims of all names. The directory's mu guards them.
type claims struct {
	store  store.Store // nil keeps them in memory only
	find   func(principal.ID) (*principal.Principal, error)
	loaded bool
	of     map[message.Type]principal.Claim
}

// load reads the claims from the store, unless it has done so before.
func (c *claims) load() error {
	if c.loaded || c.store == nil {
		return nil
	}
	for e, err := range c.store.Scan(store.Prefix([]byte{store.SpaceClaims})) {
		if err != nil {
			return err
		}
		if err := c.read(message.Type(e.Key[1:]), e.Value); err != nil {
			return err
		}
	}
	c.loaded = true
	return nil
}

func (c *claims) read(t message.Type, value []byte) error {
	var one principal.Claim
	if err := json.Unmarshal(value, &one); err != nil {
		return fmt.Errorf("the claim of the name %q can't be read; it was written by a newer version, or is damaged", t)
	}
	c.of[t] = one
	return nil
}

// Claimed reports whether a name belongs to a principal that exists, also while no connection
// serves it.
func Claimed(s store.Reader, find func(principal.ID) (*principal.Principal, error), t message.Type) (bool, error) {
	e, err := s.Get(claimKey(t))
	if err != nil || e.Revision == 0 {
		return false, err
	}
	c := claims{find: find, of: make(map[message.Type]principal.Claim)}
	if err := c.read(t, e.Value); err != nil {
		return false, err
	}
	_, held, err := c.holder(t)
	return held, err
}

func claimKey(t message.Type) []byte { return append([]byte{store.SpaceClaims}, t...) }

// set keeps a claim.
func (c *claims) set(t message.Type, to principal.Claim) error {
	if c.of[t] == to {
		return nil
	}
	value, err := json.Marshal(to)
	if err != nil {
		return err
	}
	var b store.Batch
	b.Set(claimKey(t), value)
	if err := c.apply(&b); err != nil {
		return err
	}
	c.of[t] = to
	return nil
}

// drop ends a claim.
func (c *claims) drop(t message.Type) error {
	if _, ok := c.of[t]; !ok {
		return nil
	}
	var b store.Batch
	b.Delete(claimKey(t))
	if err := c.apply(&b); err != nil {
		return err
	}
	delete(c.of, t)
	return nil
}

func (c *claims) apply(b *store.Batch) error {
	if c.store == nil {
		return nil
	}
	_, err := c.store.Apply(b)
	return err
}

// taken returns the error of a name that belongs to another principal.
func taken(t message.Type, holder principal.Claim) error {
	return message.Errorf(409, "%s belongs to %s, which registered it first; choose another name", t, holder)
}

// holder returns the principal that a name belongs to, if it still exists.
func (c *claims) holder(t message.Type) (one principal.Claim, ok bool, err error) {
	if one, ok = c.of[t]; !ok || c.find == nil {
		return one, ok, nil
	}
	p, err := c.find(one.ID)
	return one, p != nil && p.Life().Err() == nil, err
}

// evict forgets a claim to a name that isn't served, so that a principal can have another one,
// and reports whether there was one. It is a claim of the principal that has the most, and of none
// that has fewer than the caller: a caller that claims as many names as there may be doesn't take
// those of others.
func (c *claims) evict(caller principal.ID, served func(message.Type) bool) (bool, error) {
	held := make(map[principal.ID]int)
	for _, one := range c.of {
		held[one.ID]++
	}
	most, dropped := max(1, held[caller]), message.Type("")
	for t, one := range c.of {
		if n := held[one.ID]; !served(t) && n >= most {
			most, dropped = n, t
		}
	}
	return dropped != "", c.drop(dropped)
}
