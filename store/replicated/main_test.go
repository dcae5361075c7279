package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/replicated"
	"kernos/store/replicated/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A member is a copy with its way to the log, on a disk in memory.
type member struct {
	*testing.T
	disk  *vfs.MemFS
	link  *logtest.Link
	lease *logtest.Lease
	copy  *replicated.Copy
	owner *replicated.Owner // nil while it isn't the owner

	stop     context.CancelFunc // ends following
	followed chan error
}

func join(t *testing.T, log *logtest.Log) *member { return joinWith(t, log, vfs.NewCrashableMem()) }

func joinWith(t *testing.T, log *logtest.Log, disk *vfs.MemFS) *member {
	t.Helper()
	m := &member{T: t, disk: disk, link: log.Link(), lease: new(logtest.Lease)}
	m.open()
	t.Cleanup(func() {
		m.link.Resume()
		m.unfollow()
		if m.copy != nil {
			_ = m.copy.Close()
		}
	})
	return m
}

func (m *member) options() *replicated.Options {
	return &replicated.Options{Engine: &pebble.Options{FS: m.disk, CloseTimeout: 10 * 1e6}}
}

func (m *member) open() {
	m.Helper()
	c, err := replicated.Open("copy", m.link, m.options())
	if err != nil {
		m.Fatalf("Open: %v", err)
	}
	m.copy = c
}

func (m *member) own(epoch uint64) {
	m.Helper()
	m.unfollow()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	o, err := m.copy.Own(ctx, epoch, m.lease)
	if err != nil {
		m.Fatalf("Own of epoch %d: %v", epoch, err)
	}
	m.owner = o
}

// disown closes the owner; what is not accepted becomes the tail of the copy.
func (m *member) disown() {
	_ = m.owner.Close()
	m.owner = nil
}

func (m *member) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop, m.followed = cancel, make(chan error, 1)
	go func() { m.followed <- m.copy.Follow(ctx) }()
}

func (m *member) unfollow() {
	m.Helper()
	if m.stop == nil {
		return
	}
	m.stop()
	if err := <-m.followed; !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrClosed) {
		m.Errorf("Follow: %v", err)
	}
	m.stop = nil
}

// reach waits until the copy has all of the log.
func (m *member) reach() {
	m.Helper()
	last, _ := m.link.Log.Last(context.Background())
	testkit.Until(m.T, "the copy has all of the log", func() bool { return m.copy.Position().Sequence >= last.Sequence })
}

// crash leaves what has reached the disk, and opens the copy again.
func (m *member) crash(percent int, random *rand.Rand) {
	m.Helper()
	left := m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random})
	m.link.Hang() // nothing of it reaches the log any more
	if m.owner != nil {
		m.disown()
	}
	m.unfollow()
	if err := m.copy.Close(); err != nil {
		m.Errorf("Close: %v", err)
	}
	m.link.Resume()
	m.disk = left
	m.open()
}

// content returns what a copy has that nothing uses, as it is on the disk.
func (m *member) content() map[string]string {
	m.Helper()
	if err := m.copy.Close(); err != nil {
		m.Fatalf("Close: %v", err)
	}
	e, err := pebble.Open("copy", &pebble.Options{FS: m.disk, Copy: true})
	if err != nil {
		m.Fatalf("Open: %v", err)
	}
	all := contentOf(m.T, e)
	if err := e.Close(); err != nil {
		m.Fatalf("Close: %v", err)
	}
	m.open()
	return all
}

func contentOf(t *testing.T, r store.Reader) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for e, err := range r.Scan(store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key)] = fmt.Sprint(e.Revision, " ", string(e.Value))
	}
	return all
}

func (m *member) apply(b *store.Batch) *store.Commit {
	m.Helper()
	c, err := m.owner.Apply(b)
	if err != nil {
		m.Fatalf("Apply: %v", err)
	}
	return c
}

func (m *member) set(pairs ...string) *store.Commit {
	m.Helper()
	return m.apply(sets(pairs...))
}

func sets(pairs ...string) *store.Batch {
	b := new(store.Batch)
	for i := 0; i < len(pairs); i += 2 {
		b.Set([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	return b
}

func wait(c *store.Commit) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	return c.Wait(ctx)
}

func (m *member) wait(c *store.Commit) {
	m.Helper()
	if err := wait(c); err != nil {
		m.Fatalf("the commit of revision %d: %v", c.Revision, err)
	}
}

// A model is what a store should have, by the batches that were applied to it.
type model struct {
	now    map[string]string
	states []map[string]string // after each batch
}

func newModel() *model {
	return &model{now: make(map[string]string), states: []map[string]string{{}}}
}

func (m *model) apply(b *store.Batch, r store.Revision) {
	m.now = maps.Clone(m.now)
	for _, op := range b.Ops {
		switch op.Kind {
		case store.OpSet:
			m.now[string(op.Key)] = fmt.Sprint(r, " ", string(op.Value))
		case store.OpDelete:
			delete(m.now, string(op.Key))
		case store.OpDeleteRange:
			for key := range m.now {
				if key >= string(op.Key) && key < string(op.Value) {
					delete(m.now, key)
				}
			}
		}
	}
	m.states = append(m.states, m.now)
}

// randomBatch returns a batch as the kernel writes them, with keys that meet.
func randomBatch(random *rand.Rand, n int, ranges bool) *store.Batch {
	b := new(store.Batch)
	for range 1 + random.IntN(5) {
		key := fmt.Appendf(nil, "%c/%02d", "mitw"[random.IntN(4)], random.IntN(20))
		switch random.IntN(8) {
		case 0:
			b.Delete(key)
		case 1: // records of the journal ascend, nearly
			b.Set(fmt.Appendf(nil, "jt%08d", n-random.IntN(3)), []byte("record"))
		case 2:
			b.Delete(fmt.Appendf(nil, "jt%08d", random.IntN(n+1)))
		case 3:
			if ranges && random.IntN(6) == 0 {
				b.DeleteRange(key, store.After(key[:3]))
			}
		default:
			b.Set(key, make([]byte, random.IntN(100)))
		}
	}
	if b.Empty() {
		b.Set([]byte("m/last"), fmt.Append(nil, n))
	}
	return b
}
