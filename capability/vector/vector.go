// Package vector finds items of one's own by meaning: texts that the kernel embeds, or vectors that the caller has made.
//
//	Vector.Upsert {"collection":"docs","items":[{"id":"1","text":"How to reset a password","metadata":{"lang":"en"}}]}
//	Vector.Query  {"collection":"docs","text":"I can't log in","filter":{"lang":"en"}}
//	→ {"hits":[{"id":"1","score":0.61,"text":"How to reset a password","metadata":{"lang":"en"}}]}
//
// A collection begins with its first item, which decides whether it holds texts or vectors, and how long the vectors are.
// It belongs to the principal that has made it. An item is durable when the reply arrives, and is embedded a moment later; a
// query waits for that.
package vector

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/embed"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/vectors"
)

// Options are the settings of the module.
type Options struct {
	Store  store.Store
	Models []embed.Model  // see [vectors.Options]
	Cache  *vectors.Cache // caches the signs of vectors

	// Opened is closed when the store has been opened: before that nothing is embedded. Nil means that it is open.
	Opened <-chan struct{}

	Log *slog.Logger // nil means silence
}

// Vectors answers the syscalls of the module. It is safe for concurrent use.
type Vectors struct {
	opts Options
	wake chan struct{}

	mu      sync.Mutex
	changed map[name]bool           // collections with items to embed
	indexes map[head]*vectors.Keyed // indexes of collections that were used
}

// New returns the collections of a store. The caller calls Run.
func New(o *Options) *Vectors {
	v := &Vectors{opts: *o, wake: make(chan struct{}, 1), changed: make(map[name]bool), indexes: make(map[head]*vectors.Keyed)}
	v.opts.Log = cmp.Or(v.opts.Log, slog.New(slog.DiscardHandler))
	return v
}

// Module returns the module.
func (v *Vectors) Module() kernel.Module {
	return kernel.Module{
		Name:    "vector",
		Version: "1.0.0",
		Summary: "Texts and vectors of one's own, found by meaning and by metadata.",
		Domains: []string{"Vector"},
		Syscalls: []kernel.Syscall{
			upsert.Bind(v.upsert), query.Bind(v.query), remove.Bind(v.remove), collections.Bind(v.collections),
		},
	}
}

// Run embeds items in the background until ctx is done.
func (v *Vectors) Run(ctx context.Context) {
	if v.opts.Opened != nil {
		select {
		case <-v.opts.Opened:
		case <-ctx.Done():
			return
		}
	}
	all, err := v.all(v.opts.Store)
	if err != nil {
		v.opts.Log.Warn("collections of vectors can't be read; items that weren't embedded wait for the next start", "error", err)
	}
	for _, h := range all { // items that an earlier process left, or that another model has embedded
		v.note(h.name())
	}
	pauses := backoff.Backoff{First: time.Second, Longest: time.Minute}
	for {
		if err := v.grow(ctx); err == nil {
			pauses.Reset()
		} else if ctx.Err() == nil {
			v.opts.Log.Warn("items of a collection can't be embedded; it will be tried again", "error", err, "after", pauses.Pause())
			if pauses.Wait(ctx.Done()) {
				continue
			}
		}
		select {
		case <-v.wake:
		case <-ctx.Done():
			return
		}
	}
}

// note remembers that a collection has something to embed.
func (v *Vectors) note(n name) {
	v.mu.Lock()
	v.changed[n] = true
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// grow embeds waiting items, collection by collection. A collection that fails doesn't stop the others.
func (v *Vectors) grow(ctx context.Context) (failed error) {
	var again []name // collections that have failed, for the next time
	defer func() {
		for _, n := range again {
			v.note(n)
		}
	}()
	for {
		v.mu.Lock()
		var names []name
		for n := range v.changed {
			names = append(names, n)
		}
		clear(v.changed)
		v.mu.Unlock()
		if len(names) == 0 {
			return failed
		}
		for _, n := range names {
			if err := v.growOne(ctx, n); err != nil {
				failed = err
				again = append(again, n)
			}
		}
	}
}

func (v *Vectors) growOne(ctx context.Context, n name) error {
	h, _, err := v.head(n)
	if err != nil || h.Name == "" {
		return err
	}
	for x := v.index(h); ; {
		if more, err := x.Grow(ctx); err != nil || !more {
			return err
		}
	}
}

// index returns the index of a collection, the same one for all callers.
func (v *Vectors) index(h head) *vectors.Keyed {
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.indexes[h]
	if x == nil {
		o := vectors.KeyedOptions{
			Store: v.opts.Store, Prefix: h.name().key(spaceIndex, strconv.FormatInt(h.Created, 36), ""), Cache: v.opts.Cache, Models: v.opts.Models,
			Text: func(key []byte) (vectors.Text, bool, error) { return v.content(h.name(), string(key)) },
		}
		if h.Dimensions > 0 {
			o.Models = []embed.Model{given(h.Dimensions)}
		}
		x = vectors.NewKeyed(o)
		v.indexes[h] = x
	}
	return x
}

// forget lets go of the index of a collection that was deleted.
func (v *Vectors) forget(h head) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.indexes, h)
}

// given stands for the model of a collection of vectors, which the kernel doesn't know.
type given int

func (g given) ID() string      { return "given" }
func (g given) Dimensions() int { return int(g) }

func (g given) Embed(context.Context, []string) ([][]float32, error) {
	return nil, message.Errorf(422, "The collection holds vectors; give a vector of %d numbers", int(g))
}

// Stats returns how far each collection is embedded.
func (v *Vectors) Stats() ([]vectors.Progress, error) {
	all, err := v.all(v.opts.Store)
	stats := make([]vectors.Progress, 0, len(all))
	for _, h := range all {
		p, e := v.index(h).Progress()
		if e != nil {
			return stats, e
		}
		stats = append(stats, p)
	}
	return stats, err
}
