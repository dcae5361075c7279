package jetstream

import (
	"errors"
	"flag"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"kernos/cluster/clustertest"
	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/replicated"
	"kernos/store/storetest"
)

var suite = flag.Bool("suite", false, "run the suite of all engines on three servers, one of which is killed whenever a store is opened")

// TestEngine runs the suite of all engines on three servers. A server is killed when a store has been opened, which is within each
// test, and comes back before the next one is opened.
func TestEngine(t *testing.T) {
	if !*suite {
		return // an election takes seconds, and there is one in each third test
	}
	servers := clustertest.Start(t, 3)
	var opened atomic.Int64
	storetest.Run(t, storetest.Engine{
		Open: func(dir string) (store.Store, error) {
			for i := range 3 {
				servers.Restart(t, i)
			}
			nc, err := nats.Connect(servers.URL(), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
			if err != nil {
				return nil, err
			}
			n := &replicatedStore{nc: nc}
			if err := n.open(t, dir); err != nil {
				return nil, errors.Join(err, n.Close())
			}
			servers.Kill(int(opened.Add(1)) % 3)
			return n, nil
		},
		NoFS:   "the suite with a log in a file does that, on the same engine",
		Others: []goleak.Option{goleak.IgnoreAnyFunction("kernos/cluster/clustertest.(*process).start.func1")}, // waits for the end of a server
		NoKill: "the tests of whole nodes do that",
	})
}

// A replicatedStore is an owner with all that is open for it.
type replicatedStore struct {
	*replicated.Owner
	copy *replicated.Copy
	nc   *nats.Conn
	once sync.Once
	err  error
}

type always struct{}

func (always) Holds() error { return nil }

func (n *replicatedStore) open(t *testing.T, dir string) error {
	ctx := patient(t)
	stream, err := Open(ctx, n.nc, Options{Name: "SUITE", Replicas: 3})
	if err != nil {
		return err
	}
	log := stream.Log(store.Origin("https://" + filepath.Base(filepath.Dir(dir)) + "-" + filepath.Base(dir) + ".local/"))
	// An engine keeps what was applied before Close, so Close waits for the election.
	options := &replicated.Options{Engine: &pebble.Options{CloseTimeout: testkit.Patience}}
	if n.copy, err = replicated.Open(dir, log, options); err != nil {
		return err
	}
	for {
		last, err := log.Last(ctx)
		if err != nil {
			return err
		}
		if n.Owner, err = n.copy.Own(ctx, last.Epoch+1, always{}); !errors.Is(err, replicated.ErrDeposed) {
			return err
		}
	}
}

// Close implements [store.Store].
func (n *replicatedStore) Close() error {
	n.once.Do(func() {
		if n.Owner != nil {
			n.err = n.Owner.Close()
		}
		if n.copy != nil {
			n.err = errors.Join(n.err, n.copy.Close())
		}
		n.nc.Close()
	})
	return n.err
}
