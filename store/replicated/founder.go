package replicated

import (
	"context"
	"errors"

	"kernos/store"
	"kernos/store/pebble"
)

// ErrForeign is the error of a store that has a state of its own, and can't be a copy of what is in the log.
var ErrForeign = errors.New("the store has a state of its own")

func (c *Copy) errForeign() error {
	return store.Errorf(409, ErrForeign, "The store in %s has a state of its own, which can't be joined with the state of a cluster; "+
		"only the first node of a new cluster brings one: use another KERNOS_HOME, or keep this one alone after kernos cluster leave", c.dir)
}

// Founder reports whether the directory has a state of its own, which the log begins with if this node is the first
// owner of the origin.
func (c *Copy) Founder() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.founder
}

// founder returns whether an engine has a state and isn't a copy.
func founder(engine *pebble.Engine) (bool, error) {
	_, there, err := engine.Position()
	if there || err != nil {
		return false, err
	}
	empty, err := engine.Empty()
	return !empty, err
}

// awaitEpoch waits until the log has an owner.
func (c *Copy) awaitEpoch(ctx context.Context) error {
	err := c.log.Follow(ctx, 0, func(e Entry) error {
		if e.Epoch > 0 {
			return errReached
		}
		return nil
	})
	if errors.Is(err, errReached) {
		return nil
	}
	return err
}
