package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kernos/store"
)

// runRandom does the same random things to an engine and to Memory, which must agree.
func runRandom(t *testing.T, e Engine) {
	steps := Sized(6000)
	if *long {
		steps = 500_000
	}
	f := &fixture{T: t, engine: e, dir: t.TempDir()}
	f.open()
	p := &pair{fixture: f, model: NewMemory(), random: random(t), revisions: map[store.Revision]store.Revision{0: 0}}
	for n := range steps {
		p.step()
		if t.Failed() {
			t.Fatalf("in step %d", n)
		}
	}
	p.forget()
	f.close()
}

// A pair is an engine beside its model.
type pair struct {
	*fixture
	model  *Memory
	random *rand.Rand

	revisions map[store.Revision]store.Revision // of the model → of the engine
	last      store.Revision                    // of the engine
	commits   []*store.Commit
	snapshots []snapshots
}

// snapshots are of the same moment.
type snapshots struct{ engine, model store.Snapshot }

func (p *pair) step() {
	switch n := p.random.IntN(1000); {
	case n < 450:
		p.applyBoth()
	case n < 700:
		p.compareGet(p.pick())
	case n < 900:
		p.compareScan(p.pick())
	case n < 940:
		p.takeSnapshot()
	case n < 980:
		p.dropSnapshot()
	case n < 995:
		if p.random.IntN(2) == 0 {
			p.commits = append(p.commits, p.store.Barrier())
		}
		p.awaitCommits()
	default:
		p.forget()
		p.reopen()
		p.model = p.model.Crash(0)
		p.compare(p.store, p.model, store.Range{})
	}
}

// key returns one of few keys, so that steps meet.
func (p *pair) key() []byte {
	if p.random.IntN(3) == 0 {
		return []byte(awkward[p.random.IntN(len(awkward))])
	}
	key := make([]byte, 1+p.random.IntN(3))
	for i := range key {
		key[i] = "\x01am\xff"[p.random.IntN(4)]
	}
	return key
}

func (p *pair) applyBoth() {
	var ours, theirs store.Batch // the two batches differ in revisions only
	for range p.random.IntN(6) {
		key := p.key()
		switch p.random.IntN(8) {
		case 0, 1:
			ours.Delete(key)
		case 2:
			to := p.key()
			if bytes.Compare(key, to) > 0 {
				key, to = to, key
			}
			ours.DeleteRange(key, to)
		default:
			size := p.random.IntN(40)
			if p.random.IntN(100) == 0 {
				size = p.random.IntN(100_000)
			}
			ours.Set(key, noise(p.random, size))
		}
	}
	theirs.Ops = slices.Clone(ours.Ops)
	for range p.random.IntN(3) {
		key := p.key()
		r := getFrom(p, p.model, string(key)).Revision
		if p.random.IntN(5) == 0 { // most likely wrong
			r = store.Revision(p.random.IntN(len(p.revisions)))
		}
		ours.IfRevision(key, p.revisions[r])
		theirs.IfRevision(key, r)
	}
	got, err := p.store.Apply(&ours)
	want, wantErr := p.model.Apply(&theirs)
	if errors.Is(err, store.ErrConflict) != errors.Is(wantErr, store.ErrConflict) || (err == nil) != (wantErr == nil) {
		p.Fatalf("Apply %v\nsays %v, want %v", ours, err, wantErr)
	}
	if err != nil {
		return
	}
	p.commits = append(p.commits, got)
	if ours.Empty() {
		return
	}
	if got.Revision <= p.last {
		p.Errorf("revision %d after %d", got.Revision, p.last)
	}
	p.last = got.Revision
	p.revisions[want.Revision] = got.Revision
}

// pick picks the latest state or a snapshot.
func (p *pair) pick() (engine, model store.Reader) {
	if n := p.random.IntN(len(p.snapshots) + 1); n < len(p.snapshots) {
		return p.snapshots[n].engine, p.snapshots[n].model
	}
	return p.store, p.model
}

// translate gives an entry of the model the revision that the engine should have.
func (p *pair) translate(e store.Entry) store.Entry {
	r, ok := p.revisions[e.Revision]
	if !ok {
		p.Fatalf("the model has revision %d, which no write has made", e.Revision)
	}
	e.Revision = r
	return e
}

func (p *pair) compareGet(engine, model store.Reader) {
	key := string(p.key())
	got, want := getFrom(p, engine, key), p.translate(getFrom(p, model, key))
	if string(got.Value) != string(want.Value) || got.Revision != want.Revision {
		p.Errorf("Get %q: %s\nwant: %s", key, show([]store.Entry{got}), show([]store.Entry{want}))
	}
}

func (p *pair) compareScan(engine, model store.Reader) {
	keys := store.Range{Reverse: p.random.IntN(2) == 0}
	if p.random.IntN(4) > 0 {
		keys.From = p.key()
	}
	if p.random.IntN(4) > 0 {
		keys.To = p.key()
	}
	if p.random.IntN(4) == 0 {
		reverse := keys.Reverse
		keys = store.Prefix(p.key())
		keys.Reverse = reverse
	}
	p.compare(engine, model, keys)
}

func (p *pair) compare(engine, model store.Reader, keys store.Range) {
	p.Helper()
	got, want := p.scan(engine, keys), p.scan(model, keys)
	for i := range want {
		want[i] = p.translate(want[i])
	}
	if !equal(got, want) {
		p.Errorf("Scan %s: %s\nwant: %s", fmt.Sprintf("%q %q %t", keys.From, keys.To, keys.Reverse), show(got), show(want))
	}
}

func (p *pair) takeSnapshot() {
	if len(p.snapshots) == 4 {
		p.dropSnapshot()
	}
	engine, err := p.store.Snapshot()
	if err != nil {
		p.Fatal(err)
	}
	model, err := p.model.Snapshot()
	if err != nil {
		p.Fatal(err)
	}
	p.snapshots = append(p.snapshots, snapshots{engine, model})
}

func (p *pair) dropSnapshot() {
	if len(p.snapshots) == 0 {
		return
	}
	i := p.random.IntN(len(p.snapshots))
	s := p.snapshots[i]
	p.compare(s.engine, s.model, store.Range{})
	if err := errors.Join(s.engine.Close(), s.model.Close()); err != nil {
		p.Error(err)
	}
	p.snapshots = slices.Delete(p.snapshots, i, i+1)
}

func (p *pair) awaitCommits() {
	for _, c := range p.commits {
		p.wait(c)
	}
	p.commits = p.commits[:0]
}

// forget lets go of everything but the stores.
func (p *pair) forget() {
	for len(p.snapshots) > 0 {
		p.dropSnapshot()
	}
	p.awaitCommits()
}
