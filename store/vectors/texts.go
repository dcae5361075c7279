package vectors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"kernos/internal/embed"
	"kernos/store"
)

// A Text is something to embed.
type Text struct {
	ID     uint64
	Text   string    // "" is near to nothing
	Vector []float32 // the vector of the text, if the owner has it; then Text is not embedded
}

// A Source yields the texts after an id. Their ids ascend, from 1 on, and are never given again: a changed text has a new
// id. Texts that are added later have greater ids.
type Source func(after uint64) iter.Seq2[Text, error]

// Options of [Texts].
type Options struct {
	Store  store.Store
	Prefix []byte
	Source Source
	Cache  *Cache

	// Models begins with the one that embeds. The others are asked for the vectors of queries while an index that one of
	// them made is still searched.
	Models []embed.Model
}

// Texts is an index of texts that are embedded after they were stored: by [Texts.Grow], in the background.
//
// The index of each model is a generation. While the chosen model has made the only one, it grows. When another
// is chosen, a second generation begins with the first text; once it has them all, one batch puts it in the place of
// the first.
type Texts struct {
	o Options

	growing  chan struct{} // holds one value while texts grow, which can wait for a model
	unpacked int           // rows that were added since the last packing; of who grows them

	mu      sync.Mutex
	failure error // why the last attempt to embed failed, or nil
}

// NewTexts returns the texts under a prefix. It reads nothing.
func NewTexts(o Options) *Texts { return &Texts{o: o, growing: make(chan struct{}, 1)} }

// The keys of texts, after their prefix.
const (
	spaceState       = '@' // → state
	spaceGenerations = 'g' // number → the keys of its index
	spaceGone        = 'x' // id → nothing: a text that was deleted
	spaceGoneBelow   = 'y' // → the first id that isn't deleted
)

// A state is which generations exist: the one that is searched, and the one that will take its place, if any.
type state struct {
	Generations []generation `json:"generations"`

	revision store.Revision
}

// A generation is an index that one model has made.
type generation struct {
	Number     uint32 `json:"number"`
	Model      string `json:"model"`
	Dimensions int    `json:"dimensions,omitzero"` // unknown until the first text is embedded
	Position   uint64 `json:"position,omitzero"`   // the id of the last text that is in it
}

func (t *Texts) key(space byte) []byte { return append(bytes.Clone(t.o.Prefix), space) }

func (t *Texts) goneKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(t.key(spaceGone), id)
}

func (t *Texts) state() (*state, error) {
	e, err := t.o.Store.Get(t.key(spaceState))
	s := &state{revision: e.Revision}
	if err == nil && e.Revision > 0 {
		if err = json.Unmarshal(e.Value, s); err != nil {
			err = damaged(err, "The state of an index of texts can't be read")
		}
	}
	return s, err
}

func (t *Texts) index(g generation) *Index {
	prefix := binary.BigEndian.AppendUint32(t.key(spaceGenerations), g.Number)
	return NewIndex(t.o.Store, prefix, g.Dimensions, t.o.Cache)
}

// model returns the model that made a generation, or nil.
func (t *Texts) model(g generation) embed.Model {
	for _, m := range t.o.Models {
		if m.ID() == g.Model {
			return m
		}
	}
	return nil
}

// searched returns which generation is searched: the first, or the one that takes its place if queries can no longer be embedded for
// the first.
func (t *Texts) searched(s *state) int {
	if len(s.Generations) > 1 && t.model(s.Generations[0]) == nil && t.model(s.Generations[1]) != nil {
		return 1
	}
	return 0
}

// delete stages the end of a text, which may be absent. From then on it isn't found.
func (t *Texts) delete(b *store.Batch, id uint64) { b.Set(t.goneKey(id), nil) }

// DeleteBelow stages the end of all texts before an id.
func (t *Texts) DeleteBelow(b *store.Batch, id uint64) {
	b.Set(t.key(spaceGoneBelow), binary.BigEndian.AppendUint64(nil, id))
}

// gone returns which texts are deleted, and may still be in the generations: some ids, and all below another.
func (t *Texts) gone(r store.Reader) (ids []uint64, below uint64, err error) {
	for e, err := range r.Scan(store.Prefix(t.key(spaceGone))) {
		if err != nil {
			return nil, 0, err
		}
		ids = append(ids, keyID(e.Key))
	}
	e, err := r.Get(t.key(spaceGoneBelow))
	if err == nil && len(e.Value) == 8 {
		below = binary.BigEndian.Uint64(e.Value)
	}
	return ids, below, err
}

const (
	growTexts = 256  // texts that one step embeds
	growLooks = 8192 // texts that one step reads
	growBytes = 1 << 20
	packRows  = 1024
)

// Grow embeds some texts and removes deleted ones, and reports whether more is to be done. What one step does is one batch.
func (t *Texts) Grow(ctx context.Context) (more bool, err error) { return t.grow(ctx, true) }

// CatchUp embeds what the source had when it was called, and leaves a change of the model to [Texts.Grow].
func (t *Texts) CatchUp(ctx context.Context) error {
	for {
		more, err := t.grow(ctx, false)
		if err != nil || !more {
			return err
		}
	}
}

func (t *Texts) grow(ctx context.Context, all bool) (more bool, err error) {
	select {
	case t.growing <- struct{}{}:
		defer func() { <-t.growing }()
	case <-ctx.Done(): // a search doesn't wait for the step of another, whose model may take minutes
		return false, ctx.Err()
	}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if all || err != nil && ctx.Err() == nil {
			t.failure = err
		}
	}()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s, err := t.choose()
	if err != nil || len(s.Generations) == 0 {
		return false, err
	}
	for i := range s.Generations {
		if i > t.searched(s) && !all {
			break
		}
		left, err := t.extend(ctx, s, i)
		if err != nil {
			return false, err
		}
		if left {
			more = true
		} else if i > 0 {
			return true, t.replace(s) // the next step packs, and removes what was deleted
		}
	}
	if !more {
		more, err = t.sweep(s)
	}
	if err == nil && t.unpacked >= packRows {
		t.unpacked = 0
		for _, g := range s.Generations {
			if g.Dimensions > 0 {
				err = cmp.Or(err, t.index(g).Pack(ctx))
			}
		}
	}
	return more, err
}

// choose returns the state after it has begun a generation for the chosen model, if there was none, and dropped one
// that is no longer wanted.
func (t *Texts) choose() (*state, error) {
	s, err := t.state()
	if err != nil || len(t.o.Models) == 0 {
		return s, err
	}
	chosen := t.o.Models[0].ID()
	var b store.Batch
	n := len(s.Generations)
	if n > 0 && s.Generations[n-1].Model == chosen {
		return s, nil
	}
	number := uint32(1)
	if n > 0 {
		number = s.Generations[n-1].Number + 1
	}
	if n > 1 { // the second generation was to take over, and another model is wanted now
		t.index(s.Generations[1]).Drop(&b)
		s.Generations = s.Generations[:1]
	}
	if n == 0 || s.Generations[0].Model != chosen {
		s.Generations = append(s.Generations, generation{Number: number, Model: chosen})
	}
	return s, t.write(&b, s)
}

// write applies a batch with the state that it leads to.
func (t *Texts) write(b *store.Batch, s *state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b.IfRevision(t.key(spaceState), s.revision) // fails if another process has changed the state
	b.Set(t.key(spaceState), text)
	commit, err := t.o.Store.Apply(b)
	if err == nil {
		s.revision = commit.Revision
	}
	return err
}

// extend embeds some texts into a generation, and reports whether more are left.
func (t *Texts) extend(ctx context.Context, s *state, at int) (more bool, err error) {
	g := &s.Generations[at]
	model := t.model(*g)
	var texts []Text
	looked, size := 0, 0
	position := g.Position
	for text, err := range t.o.Source(position) {
		if err != nil {
			return false, err
		}
		if text.ID <= position {
			return false, fmt.Errorf("the source of texts went from %d back to %d", position, text.ID)
		}
		if text.Vector == nil && model == nil {
			return false, nil // the index's model isn't there, so nothing can be embedded
		}
		if looked == growLooks || len(texts) == growTexts || size >= growBytes {
			more = true
			break
		}
		looked++
		position = text.ID
		if text.Text != "" || text.Vector != nil {
			texts = append(texts, text)
			size += len(text.Text) + 4*len(text.Vector)
		}
	}
	if looked == 0 {
		return false, nil
	}
	if err := t.embed(ctx, model, texts); err != nil {
		return false, err
	}
	var b store.Batch
	for _, text := range texts {
		if g.Dimensions == 0 {
			g.Dimensions = len(text.Vector)
		}
		if err := t.index(*g).Add(&b, text.ID, text.Vector); err != nil {
			return false, fmt.Errorf("the model %s: %w", g.Model, err)
		}
	}
	g.Position = position
	t.unpacked += len(texts)
	return more, t.write(&b, s)
}

// embed gives vectors to the texts that have none.
func (t *Texts) embed(ctx context.Context, model embed.Model, texts []Text) error {
	var words []string
	for _, text := range texts {
		if text.Vector == nil {
			words = append(words, text.Text)
		}
	}
	if len(words) == 0 {
		return nil
	}
	vectors, err := model.Embed(ctx, words)
	if err != nil {
		return err
	}
	if len(vectors) != len(words) {
		return fmt.Errorf("the model %s gave %d vectors for %d texts", model.ID(), len(vectors), len(words))
	}
	for i := range texts {
		if texts[i].Vector == nil {
			texts[i].Vector, vectors = vectors[0], vectors[1:]
		}
	}
	return nil
}

// replace puts the second generation in the place of the first.
func (t *Texts) replace(s *state) error {
	var b store.Batch
	t.index(s.Generations[0]).Drop(&b)
	s.Generations = s.Generations[1:]
	return t.write(&b, s)
}

// sweep removes deleted texts from the generations. No text is being added to them meanwhile.
func (t *Texts) sweep(s *state) (more bool, err error) {
	ids, below, err := t.gone(t.o.Store)
	if err != nil {
		return false, err
	}
	var b store.Batch
	for _, id := range ids[:min(len(ids), 4*growTexts)] {
		b.Delete(t.goneKey(id))
		for _, g := range s.Generations {
			if g.Dimensions > 0 {
				t.index(g).Delete(&b, id)
			}
		}
	}
	for _, g := range s.Generations {
		x := t.index(g)
		floor, err := x.floor(t.o.Store)
		if err != nil {
			return false, err
		}
		if floor < below {
			x.DeleteBelow(&b, below)
			t.unpacked = packRows // whole blocks may go
		}
	}
	if !b.Empty() {
		err = t.write(&b, s)
	}
	return len(ids) > 4*growTexts, err
}

// ErrNoModel is why an index can't be asked: another model made it, and is gone. Searches are answered again
// when the chosen model has begun to embed the texts, by those that it has embedded.
var ErrNoModel = errors.New("the model that made the index isn't available")

// Search returns the texts nearest to a query's text, or to its vector if it has one. Errors of the model are returned
// as they are; where the texts were made by a model that isn't there, the error is [ErrNoModel].
func (t *Texts) Search(ctx context.Context, text string, q Query) ([]Hit, error) {
	for {
		s, err := t.state()
		if err != nil || len(s.Generations) == 0 {
			return nil, err
		}
		g := s.Generations[t.searched(s)]
		if g.Dimensions == 0 {
			return nil, nil
		}
		if q.Vector == nil {
			m := t.model(g)
			if m == nil {
				return nil, fmt.Errorf("%w: %s", ErrNoModel, g.Model)
			}
			words := []Text{{Text: text}}
			if err := t.embed(ctx, m, words); err != nil {
				return nil, err
			}
			q.Vector = words[0].Vector
		}
		hits, err := t.search(ctx, g, q)
		if err != nil {
			return nil, err
		}
		after, err := t.state()
		if err != nil || len(after.Generations) > 0 && after.Generations[t.searched(after)].Number == g.Number {
			return hits, err
		}
		if text != "" { // another generation has taken over meanwhile
			q.Vector = nil
		}
	}
}

func (t *Texts) search(ctx context.Context, g generation, q Query) ([]Hit, error) {
	gone, below, err := t.gone(t.o.Store)
	if err != nil {
		return nil, err
	}
	q.From = max(q.From, below)
	if accept := q.Accept; len(gone) > 0 {
		q.Accept = func(id uint64) bool {
			_, deleted := slices.BinarySearch(gone, id)
			return !deleted && (accept == nil || accept(id))
		}
	}
	return t.index(g).Search(ctx, q)
}

// Position returns the id of the last text that a search can find.
func (t *Texts) Position() (uint64, error) {
	s, err := t.state()
	if err != nil || len(s.Generations) == 0 {
		return 0, err
	}
	return s.Generations[t.searched(s)].Position, nil
}

// Progress is how far texts are embedded.
type Progress struct {
	Model    string `json:"model"`            // the model of the vectors that are searched
	Entries  int    `json:"entries"`          // embedded entries
	Position uint64 `json:"-"`                // the id of the last embedded entry
	Pending  int    `json:"pending,omitzero"` // changed keys that are not embedded yet
	Next     string `json:"next,omitempty"`   // the model that embeds all entries again
	Done     int    `json:"done,omitzero"`    // entries that Next has embedded
	Waiting  string `json:"waiting,omitempty"`
}

// Progress returns how far the texts are embedded, and why it doesn't continue, if it doesn't.
func (t *Texts) Progress() (Progress, error) {
	var p Progress
	t.mu.Lock()
	if t.failure != nil {
		p.Waiting = t.failure.Error()
	}
	t.mu.Unlock()
	s, err := t.state()
	first := t.searched(s)
	for i, g := range s.Generations {
		if i < first {
			continue
		}
		n := 0
		if err == nil && g.Dimensions > 0 {
			n, err = t.index(g).Count()
		}
		if i == first {
			p.Model, p.Entries, p.Position = g.Model, n, g.Position
		} else {
			p.Next, p.Done = g.Model, n
		}
	}
	return p, err
}
