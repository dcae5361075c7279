package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"kernos/store"
	"kernos/store/replicated"
	"kernos/store/replicated/jetstream"
)

// state is what this package needs of a copy.
type state interface {
	Follow(ctx context.Context) error
	Own(ctx context.Context, epoch uint64, lease replicated.Lease) (owned, error)
	Position() replicated.Position
	Founder() bool
	Checksum(ctx context.Context, sequence uint64) (string, error)
}

// owned is the store of an owner's kernel.
type owned interface {
	store.Store
	Lost() <-chan struct{}
	Mark(ctx context.Context) (sequence uint64, err error)
}

// A local is a copy in a directory.
type local struct{ *replicated.Copy }

func (l local) Own(ctx context.Context, epoch uint64, lease replicated.Lease) (owned, error) {
	o, err := l.Copy.Own(ctx, epoch, lease)
	if err != nil {
		return nil, err // not a nil *Owner in the interface
	}
	return o, nil
}

// A Node is a member of a cluster. It is safe for concurrent use.
type Node struct {
	options  Options
	instance string // of this process
	prefix   string // of the subjects that the stream doesn't keep
	owner    string // the subject of the owner's record
	nodes    string // the subject of the list of members
	copy     state
	messages messages
	bus      bus
	now      clock
	log      *slog.Logger

	stopping chan struct{} // closed by Stop
	stop     func()        // closes it, once
	wake     chan struct{} // the record has changed: has room for one
	moves    chan move     // for the owner
	cancel   chan error    // what ends Run; has room for one
	ended    chan struct{} // closed when Run has returned
	work     background    // the goroutines of Run

	mu       sync.Mutex
	presence presence
	seen     sight
	changed  chan struct{} // closed when another node owns
	owning   bool          // this node owns, or is about to
	gone     bool          // it has said goodbye
	store    owned         // while the kernel runs
	epoch    uint64        // the largest that this node has tried to own
	behind   uint64        // than the owner
	goal     uint64        // the largest number of a group that an owner had
	unable   string        // why this node can't take over
	retry    time.Duration // when it tries again, by the clock
	pause    time.Duration // before that
}

// isName reports whether a text can name a node: it is a token of subjects.
func isName(text string) bool {
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// Open returns a node, which does nothing before Run.
func Open(o Options) (*Node, error) {
	if o.Stream == nil || o.Copy == nil || o.Own == nil {
		return nil, errors.New("a node of a cluster needs a stream, a copy and a kernel")
	}
	n, err := open(o, local{o.Copy}, o.Stream, wire{o.Stream.Conn()}, monotonic())
	if err != nil {
		return nil, err
	}
	n.on(o.Stream)
	if o.Servers == nil {
		n.options.Servers = o.Stream.Conn().Servers
	}
	return n, nil
}

// on has the node use the subjects of a stream. What the stream needn't keep has subjects outside of it.
func (n *Node) on(s *jetstream.Stream) {
	n.prefix = strings.ToLower(s.Name()) + "-nodes."
	n.owner, n.nodes = s.Subject("owner"), s.Subject("nodes")
}

// open returns a node on what it needs.
func open(o Options, c state, m messages, b bus, now clock) (*Node, error) {
	if !isName(o.Name) {
		return nil, fmt.Errorf("the name %q of a node isn't made of 1 to 64 letters, digits, hyphens and underscores", o.Name)
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	stopping := make(chan struct{})
	return &Node{
		options: o, copy: c, messages: m, bus: b, now: now, log: o.Log.With("node", o.Name),
		instance: rand.Text(), prefix: "kernos-nodes.", owner: "kernos.owner", nodes: "kernos.nodes",
		stopping: stopping, stop: sync.OnceFunc(func() { close(stopping) }),
		wake: make(chan struct{}, 1), moves: make(chan move), cancel: make(chan error, 1), ended: make(chan struct{}),
		presence: presence{peers: make(map[string]*peer)}, changed: make(chan struct{}),
	}, nil
}

// Run is the life of the node: it follows the owner, takes over, runs the kernel, and follows again. It returns nil after
// [Node.Stop], or if the kernel was told to stop; and an error once ctx is done, or if a person has to do something: the
// copy has what the servers have lost ([replicated.ErrDiverged]) or a state of its own ([replicated.ErrForeign]), or another node has the same name. If ctx is done the
// kernel is closed, and nothing is handed over. A node runs once.
func (n *Node) Run(ctx context.Context) (err error) {
	defer close(n.ended)
	ctx, cancel := context.WithCancelCause(ctx)
	defer n.work.wait()
	defer cancel(nil)
	n.work.Go(func() {
		select {
		case err := <-n.cancel:
			cancel(err)
		case <-ctx.Done():
		}
	})
	if err := n.listen(ctx); err != nil {
		return fmt.Errorf("the other nodes can't be heard: %w", err)
	}
	n.work.Go(func() { n.enroll(ctx) })
	n.work.Go(func() { n.announces(ctx) })
	for {
		claim, unfollow, err := n.follow(ctx)
		if claim != nil {
			err = n.own(ctx, claim, unfollow)
		}
		switch {
		case errors.Is(err, errStop):
			n.goodbye()
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			n.goodbye()
			return err
		}
	}
}

// fatal reports whether an error of a copy is one that a person has to do something about.
func fatal(err error) bool {
	return errors.Is(err, replicated.ErrDiverged) || errors.Is(err, replicated.ErrForeign)
}

// errStop means that the node was told to stop.
var errStop = errors.New("the node stops")

// listen begins to hear the other nodes, until ctx is done.
func (n *Node) listen(ctx context.Context) error {
	stopSigns, err := n.bus.subscribe(n.subject("sign"), n.heard)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, stopSigns)
	stopWake, err := n.bus.subscribe(n.subject("wake"), func([]byte, func([]byte)) { n.look() })
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, stopWake)
	return errors.Join(
		serve(ctx, n, "position", n.position),
		serve(ctx, n, "mark", n.mark),
		serve(ctx, n, "checksum", n.checksum),
		serve(ctx, n, "move", n.moveHere),
	)
}

// look has the record of the owner read soon.
func (n *Node) look() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// tell has all nodes read the record of the owner soon.
func (n *Node) tell() {
	if err := n.bus.publish(n.subject("wake"), nil); err != nil {
		n.log.Debug("the other nodes can't be told of the new owner", "error", err)
	}
}

// goodbye tells the other nodes that this one stops.
func (n *Node) goodbye() {
	n.mu.Lock()
	n.gone = true
	n.mu.Unlock()
	n.announce()
}

// fail ends Run with an error.
func (n *Node) fail(err error) {
	select {
	case n.cancel <- err:
	default: // ends with another one already
	}
}

// Owner returns the owner that this node knows of, and a channel that is closed when it is another one. A member without
// a name means that there is none: no node owned yet, or the last owner has stopped.
func (n *Node) Owner() (Member, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.member(), n.changed
}

// member returns the owner. The caller holds mu.
func (n *Node) member() Member {
	r := &n.seen.record
	if n.seen.sequence == 0 || r.Stopping {
		return Member{}
	}
	return Member{Name: r.Node, Epoch: r.Epoch, Door: r.Door, Self: r.Instance == n.instance && n.owning}
}

// see notes a record that was read before now.
func (n *Node) see(sequence uint64, r record, sure bool) {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.update(func() { n.seen.see(sequence, r, now, n.options.Lease, sure) })
}

// update changes what decides about the owner. The caller holds mu.
func (n *Node) update(change func()) {
	before := n.member()
	change()
	if n.member() != before {
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// A background is a number of goroutines that are waited for. It begins none meanwhile.
type background struct {
	mu    sync.Mutex
	ended bool
	wg    sync.WaitGroup
}

// Go calls f on a goroutine, or not at all after wait.
func (b *background) Go(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.wg.Go(f)
	}
}

func (b *background) wait() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.wg.Wait()
}
