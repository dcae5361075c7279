package vectors_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kernos/internal/embed"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/storetest"
	"kernos/store/vectors"
)

// A fake is a model whose vectors depend on the whole text and on the model, and on nothing else.
type fake struct {
	id         string
	dimensions int
	fail       atomic.Pointer[error]
	embedded   atomic.Int32
	held       chan struct{} // Embed waits until it is closed; nil means that it doesn't
	waits      chan struct{} // receives when it has begun to wait
}

func (f *fake) ID() string      { return f.id }
func (f *fake) Dimensions() int { return f.dimensions }

func (f *fake) Embed(_ context.Context, texts []string) ([][]float32, error) {
	if f.held != nil {
		select {
		case f.waits <- struct{}{}:
		default:
		}
		<-f.held
	}
	if err := f.fail.Load(); err != nil {
		return nil, *err
	}
	f.embedded.Add(int32(len(texts)))
	all := make([][]float32, len(texts))
	for i, text := range texts {
		h := fnv.New64a()
		_, _ = h.Write([]byte(f.id + " " + text))
		all[i] = noise(rand.New(rand.NewPCG(h.Sum64(), 1)), f.dimensions)
	}
	return all, nil
}

func small() *fake { return &fake{id: "small-1", dimensions: 64} }
func large() *fake { return &fake{id: "large-1", dimensions: 100} }

// An owner keeps texts by key, and has them embedded.
type owner struct {
	store.Store
	*vectors.Keyed
}

func owns(s store.Store, models ...embed.Model) *owner {
	o := &owner{Store: s}
	o.Keyed = vectors.NewKeyed(vectors.KeyedOptions{
		Store: s, Prefix: []byte("v"), Models: models, Cache: vectors.NewCache(1<<30, time.Hour),
		Text: func(key []byte) (vectors.Text, bool, error) {
			e, err := s.Get(append([]byte("o"), key...))
			return vectors.Text{Text: string(e.Value)}, e.Revision > 0, err
		},
	})
	return o
}

// set changes texts, or deletes those that are "".
func (o *owner) set(texts map[string]string) (*store.Commit, error) {
	var b store.Batch
	for key, text := range texts {
		if text == "" {
			b.Delete([]byte("o" + key))
		} else {
			b.Set([]byte("o"+key), []byte(text))
		}
		o.Mark(&b, []byte(key))
	}
	return o.Apply(&b)
}

func (o *owner) texts(t testing.TB) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for e, err := range o.Scan(store.Prefix([]byte("o"))) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key[1:])] = string(e.Value)
	}
	return all
}

func (o *owner) grow(t testing.TB) {
	t.Helper()
	for {
		if more, err := o.Grow(t.Context()); err != nil {
			t.Fatal(err)
		} else if !more {
			return
		}
	}
}

// complete reports an error unless the index has the owner's texts and no others, as a model embeds them.
func (o *owner) complete(t testing.TB, model *fake) {
	t.Helper()
	if err := o.Check(t.Context()); err != nil {
		t.Error(err)
	}
	texts := o.texts(t)
	hits, err := o.Search(t.Context(), vectors.KeyQuery{Text: "anything", Limit: len(texts) + 1000})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float32)
	for _, h := range hits {
		found[string(h.Key)] = h.Score
	}
	if len(hits) != len(found) || !slices.Equal(slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(texts))) {
		t.Errorf("%d hits, %d keys, and the owner has %d", len(hits), len(found), len(texts))
	}
	// Vectors of texts that are gone take no places.
	if hits, err = o.Search(t.Context(), vectors.KeyQuery{Text: "anything", Limit: len(texts)}); err != nil || len(hits) != len(texts) {
		t.Errorf("%d hits of %d, %v", len(hits), len(texts), err)
	}
	query, _ := model.Embed(t.Context(), []string{"anything"})
	for key, text := range texts {
		v, _ := model.Embed(t.Context(), []string{text})
		if want := float32(cosine(v[0], query[0])); found[key]-want > 0.01 || want-found[key] > 0.01 {
			t.Errorf("%s has the score %v, want %v: its vector is of another text or model", key, found[key], want)
			return
		}
	}
	if p, err := o.Progress(); err != nil || p.Model != model.ID() || p.Next != "" || p.Pending != 0 {
		t.Errorf("Progress: %+v, %v", p, err)
	}
}

func TestTextsFollowTheirOwner(t *testing.T) {
	model := small()
	o := owns(storetest.NewMemory(), model)
	many := make(map[string]string)
	for i := range 600 {
		many[fmt.Sprint("old", i)] = fmt.Sprint("text ", i)
	}
	if _, err := o.set(many); err != nil {
		t.Fatal(err)
	}
	o.grow(t)
	o.complete(t, model)
	for _, change := range []map[string]string{
		{"a": "one", "b": "two", "b/c": "three"},
		{"a": "other", "b": ""},
		{"a": "", "gone": "", "old7": "another text", "b/c": "three"},
	} {
		if _, err := o.set(change); err != nil {
			t.Fatal(err)
		}
		if err := o.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.complete(t, model)
	}
	n := model.embedded.Load()
	if _, err := o.set(map[string]string{"b/c": "three"}); err != nil {
		t.Fatal(err)
	}
	o.grow(t)
	if again := model.embedded.Load(); again != n {
		t.Errorf("a text that is the same was embedded again")
	}
	without5 := func(key []byte) bool { return !strings.HasSuffix(string(key), "5") }
	hits, err := o.Search(t.Context(), vectors.KeyQuery{Text: "x", Limit: 1000, Accept: without5})
	if err != nil || len(hits) != 541 || slices.ContainsFunc(hits, func(h vectors.KeyHit) bool { return !without5(h.Key) }) {
		t.Errorf("%d hits whose keys don't end with 5, %v, want 541", len(hits), err)
	}
	keys := [][]byte{[]byte("old5"), []byte("b/c"), []byte("a")}
	if hits, err = o.Search(t.Context(), vectors.KeyQuery{Text: "x", Limit: 1000, Keys: keys}); err != nil || len(hits) != 2 {
		t.Errorf("%d hits among three keys, of which one is gone, %v", len(hits), err)
	}
}

// Another model embeds all texts again, and searches use the first one's vectors until the last moment.
func TestAnotherModelTakesOver(t *testing.T) {
	s := storetest.NewMemory()
	old, chosen := small(), large()
	o := owns(s, old)
	texts := make(map[string]string)
	for i := range 1500 {
		texts[fmt.Sprint("key", i)] = fmt.Sprint("text ", i)
	}
	if _, err := o.set(texts); err != nil {
		t.Fatal(err)
	}
	o.grow(t)
	o = owns(s, chosen, old)
	steps := 0
	for more := true; more; steps++ {
		p, err := o.Progress()
		if err != nil {
			t.Fatal(err)
		}
		if steps > 0 && p.Model == old.ID() {
			if p.Next != chosen.ID() || p.Entries < 1500 || p.Done == 0 {
				t.Errorf("step %d: %+v", steps, p)
			}
			if err := o.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			hits, err := o.Search(t.Context(), vectors.KeyQuery{Text: "text 7", Limit: 1})
			if err != nil || len(hits) != 1 || string(hits[0].Key) != "key7" {
				t.Fatalf("step %d: %v, %v", steps, hits, err)
			}
			if _, err := o.set(map[string]string{fmt.Sprint("new", steps): "new", fmt.Sprint("key", 100*steps): "", fmt.Sprint("key", 50+steps): "changed"}); err != nil {
				t.Fatal(err)
			}
		}
		if more, err = o.Grow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if steps < 6 {
		t.Errorf("only %d steps", steps)
	}
	o.complete(t, chosen)

	// The first model comes back, and the other one can't embed queries any more: searches find what is embedded again. Then the
	// choice is taken back half-way.
	o = owns(s, old)
	if _, err := o.Search(t.Context(), vectors.KeyQuery{Text: "text 7", Limit: 1}); !errors.Is(err, vectors.ErrNoModel) {
		t.Errorf("a search without the model: %v", err)
	}
	for range 4 {
		if _, err := o.Grow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p, err := o.Progress()
	if err != nil || p.Model != old.ID() || p.Entries == 0 || p.Entries >= 1500 || p.Next != "" {
		t.Errorf("half-way, and the first model isn't there: %+v, %v", p, err)
	}
	if hits, err := o.Search(t.Context(), vectors.KeyQuery{Text: "text 7", Limit: 1}); err != nil || len(hits) != 1 {
		t.Errorf("half-way: %v, %v", hits, err)
	}
	o = owns(s, chosen)
	o.grow(t)
	o.complete(t, chosen)
	for e, err := range s.Scan(store.Prefix([]byte("vTg"))) {
		if err != nil || !strings.HasPrefix(string(e.Key), "vTg\x00\x00\x00\x02") {
			t.Fatalf("a generation was left: %q, %v", e.Key, err)
		}
	}
}

func TestAModelThatFails(t *testing.T) {
	model := small()
	o := owns(storetest.NewMemory(), model)
	failure := errors.New("the endpoint answers 500")
	model.fail.Store(&failure)
	if _, err := o.set(map[string]string{"a": "one"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _ = o.Grow(t.Context())
		if _, err := o.Grow(t.Context()); !errors.Is(err, failure) {
			t.Errorf("Grow: %v", err)
		}
	}
	if p, err := o.Progress(); err != nil || p.Waiting != failure.Error() {
		t.Errorf("Progress: %+v, %v", p, err)
	}
	model.fail.Store(nil)
	o.grow(t)
	o.complete(t, model)
	if p, err := o.Progress(); err != nil || p.Waiting != "" || p.Entries != 1 {
		t.Errorf("Progress: %+v, %v", p, err)
	}
}

// Who can wait no longer than its context isn't kept by a step of another that waits for its model.
func TestAModelThatIsSlow(t *testing.T) {
	old, chosen := small(), large()
	s := storetest.NewMemory()
	o := owns(s, old)
	if _, err := o.set(map[string]string{"a": "one"}); err != nil {
		t.Fatal(err)
	}
	o.grow(t)
	chosen.held, chosen.waits = make(chan struct{}), make(chan struct{}, 1)
	o = owns(s, chosen, old)
	grown := make(chan error)
	go func() {
		for more := true; more; {
			var err error
			if more, err = o.Grow(t.Context()); err != nil {
				grown <- err
				return
			}
		}
		grown <- nil
	}()
	<-chosen.waits
	if _, err := o.set(map[string]string{"b": "two"}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := o.CatchUp(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("CatchUp: %v", err)
	}
	if hits, err := o.Search(t.Context(), vectors.KeyQuery{Text: "one", Limit: 1}); err != nil || len(hits) != 1 || string(hits[0].Key) != "a" {
		t.Errorf("a search: %v, %v", hits, err)
	}
	if p, err := o.Progress(); err != nil || p.Waiting != "" {
		t.Errorf("Progress: %+v, %v", p, err)
	}
	close(chosen.held)
	if err := <-grown; err != nil {
		t.Error(err)
	}
	o.complete(t, chosen)
}

// After a crash at any moment, and with a store that fails at any moment, the index has what its batches had, and gets the rest.
// Invariants: V1, V2, V3.
func TestTextsAfterCrashesAndFaults(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	models := []*fake{small(), large()}
	s := storetest.NewMemory()
	s.Manual()
	fault := errors.New("a fault")
	for round := range storetest.Sized(20) {
		chosen, other := models[round/10%2], models[(round/10+1)%2]
		o := owns(s, chosen, other)
		for range 1 + random.IntN(6) {
			changes := make(map[string]string)
			for range 1 + random.IntN(300) {
				text := ""
				if random.IntN(4) > 0 {
					text = fmt.Sprint("text ", random.IntN(1000))
				}
				changes[fmt.Sprint("key", random.IntN(1500))] = text
			}
			if _, err := o.set(changes); err != nil {
				t.Fatal(err)
			}
			if random.IntN(2) == 0 {
				after := random.IntN(2000)
				calls := 0
				s.Fail(func(string) error {
					if calls++; calls > after {
						return fault
					}
					return nil
				})
			}
			for range random.IntN(8) {
				if _, err := o.Grow(t.Context()); err != nil && !errors.Is(err, fault) {
					t.Fatal(err)
				}
			}
			s.Fail(nil)
			if random.IntN(3) == 0 {
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		s = s.Crash(random.IntN(s.Pending() + 1))
		o = owns(s, chosen, other)
		if err := o.Check(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%5 == 4 {
			o.grow(t)
			o.complete(t, chosen)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// A process that is killed while texts change and the model changes leaves an index that the next one can go on with.
func TestTextsOfAKilledProcess(t *testing.T) {
	models := []*fake{small(), large()}
	open := func(dir string) (*owner, int, error) {
		s, err := pebble.Open(dir, nil)
		if err != nil {
			return nil, 0, err
		}
		e, err := s.Get([]byte("round"))
		n := 0
		_, _ = fmt.Sscan(string(e.Value), &n)
		return owns(s, models[n%2], models[(n+1)%2]), n, err
	}
	storetest.Victim{
		Reports: 200,
		Work: func(dir string, report func(string)) error {
			o, n, err := open(dir)
			if err != nil {
				return err
			}
			var b store.Batch
			b.Set([]byte("round"), fmt.Append(nil, n+1)) // the next process has the other model
			if _, err := o.Apply(&b); err != nil {
				return err
			}
			failed := make(chan error, 1)
			go func() {
				for {
					if _, err := o.Grow(context.Background()); err != nil {
						failed <- err
						return
					}
				}
			}()
			random := rand.New(rand.NewPCG(uint64(n), 7))
			for step := 0; ; step++ {
				changes := make(map[string]string)
				for range 1 + random.IntN(20) {
					text := ""
					if random.IntN(4) > 0 {
						text = fmt.Sprint("text ", n, step)
					}
					changes[fmt.Sprint("key", random.IntN(3000))] = text
				}
				commit, err := o.set(changes)
				if err == nil {
					err = commit.Wait(context.Background())
				}
				if err != nil {
					return err
				}
				report(fmt.Sprint(step))
				select {
				case err := <-failed:
					return err
				default:
				}
			}
		},
		Check: func(t *testing.T, dir string, _ []string) {
			o, n, err := open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			if err := o.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if n%4 == 0 {
				o.grow(t)
				o.complete(t, models[n%2])
			}
		},
		End: func(t *testing.T, dir string) {
			o, n, err := open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			o.grow(t)
			o.complete(t, models[n%2])
		},
	}.Kill(t, storetest.Sized(6))
}
