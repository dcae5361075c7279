// Package cluster runs a kernel that outlives its machine: of the nodes of a cluster, one owns the origin, and its kernel
// runs; the others follow what it writes, and one of them takes over when it is gone.
//
//	copy, err := replicated.Open(dir, stream.Log(origin), …)
//	node, err := cluster.Open(cluster.Options{Name: "a", Stream: stream, Copy: copy, Own: kernel})
//	err = node.Run(ctx) // follows, owns, follows; until ctx is done, Stop, or an error that a person must see
//
// # The lease
//
// Who owns is the last message of a subject of the stream, kernos.owner: a [record] that names the node and counts
// epochs. The owner replaces it four times per lease, each time on the condition that it is still the last one. It holds
// the lease until a lease's length, less a margin, after the moment before it published the last message that the
// servers have acknowledged. Another node takes the ownership by the same condition, and only after it has seen one and
// the same message for a whole lease, counted from when it had received it. Both count on clocks of their own that
// nothing sets, so:
//
//	L1  At most one node's lease holds at any moment.
//	L2  A node whose lease doesn't hold answers nothing from its store.
//	L3  Epochs grow: what an owner writes after another one has begun its epoch isn't accepted.
//
// L1 rests on the clocks of two machines to run equally fast, within the margin, for the length of a lease. L3 rests on no
// clock: the stream refuses what doesn't follow its last message. So if clocks fail, a read may be out of date, and
// nothing is lost.
package cluster

import (
	"context"
	"log/slog"
	"time"

	"kernos/store"
	"kernos/store/replicated"
	"kernos/store/replicated/jetstream"
)

// DefaultLease is the length of a lease with servers outside of the nodes. With a renewal each 500 ms, four can fail, or
// the servers be away for 1.3 s, before the owner has to refuse reads; and another node owns about 2 s after the owner is
// gone: 1.75 s for what is left of the lease on average, the rest for the epoch and for opening the kernel.
const DefaultLease = 2 * time.Second

// A Copy is the state of the origin on this node, as package replicated has it.
type Copy interface {
	// Follow applies what the owner writes until ctx is done.
	Follow(ctx context.Context) error

	// Own begins an epoch, and returns the store of the owner's kernel. The kernel closes it, after which the copy can
	// follow again.
	Own(ctx context.Context, epoch uint64, lease replicated.Lease) (store.Store, error)
}

// Options of a node.
type Options struct {
	Name   string            // of the node: letters, digits, hyphens and underscores; different for each node
	Stream *jetstream.Stream // has the record of the owner; better on a connection that large entries don't use
	Copy   Copy              // the caller closes it after Run

	// Own runs a kernel on a store until ctx is done, or the kernel was told to stop, closes the store, and returns. An
	// error is logged, and gives the ownership away; this node waits a while before it takes it again.
	Own func(ctx context.Context, s store.Store) error

	Door    Door            // where this node takes what other nodes pass on
	Address string          // for people: where clients reach this node
	Version string          // of the program
	Keys    func() []string // names of the sealing keys that this node has; nil: none
	Servers func() []string // for Status; nil: those that the connection knows
	Lease   time.Duration   // 0: DefaultLease. All nodes have the same.
	Log     *slog.Logger    // nothing is logged if nil
}

// A Door is how other nodes reach the owner. It is in the owner's record.
type Door struct {
	Address string `json:"address,omitempty"` // HOST:PORT
	Pin     string `json:"pin,omitempty"`     // of the certificate
	Key     string `json:"key,omitempty"`     // shows that a caller could read the record
}

// A Member is the owner, as the record has it.
type Member struct {
	Name  string
	Epoch uint64
	Door  Door
	Self  bool // this node
}

// A Node is a member of a cluster. It is safe for concurrent use.
type Node struct {
	options Options
}

// Open returns a node, which does nothing before Run.
func Open(o Options) (*Node, error) { panic("TODO") }

// Run is the life of the node: it follows the owner, takes over, runs the kernel, and follows again. It returns nil after
// [Node.Stop], or if the kernel was told to stop; and an error once ctx is done, or if a person has to do something: the
// copy has what the servers have lost ([replicated.ErrDiverged]), or another node has the same name. If ctx is done the
// kernel is closed, and nothing is handed over.
func (n *Node) Run(ctx context.Context) error { panic("TODO") }

// Owner returns the owner that this node knows of, and a channel that is closed when it is another one. A member without
// a name means that there is none: nobody owned yet, or the last owner has stopped.
func (n *Node) Owner() (Member, <-chan struct{}) { panic("TODO") }

// Stop ends Run. If this node owns, the kernel closes, and the ownership goes to a node that is level, which takes it at
// once. It returns when the other node has taken it, if there is one, and in any case soon after the kernel has closed.
func (n *Node) Stop(ctx context.Context) error { panic("TODO") }

// Move hands the ownership to a node. It can be called on each node, and returns when that node owns.
func (n *Node) Move(ctx context.Context, name string) error { panic("TODO") }

// Status returns what this node knows about the cluster.
func (n *Node) Status() Status { panic("TODO") }

// Check compares all copies at one sequence. Nodes that are away, or whose copy doesn't get there while ctx lasts, have
// no checksum but a problem.
func (n *Node) Check(ctx context.Context) (Comparison, error) { panic("TODO") }

// Leave takes a node that is away out of the status, or this one before it stops for good.
func (n *Node) Leave(ctx context.Context, name string) error { panic("TODO") }

// Status is a cluster as a node sees it.
type Status struct {
	Node    string       `json:"node"`            // the one that answers
	Owner   string       `json:"owner,omitempty"` // empty if there is none
	Epoch   uint64       `json:"epoch,omitempty"`
	Nodes   []NodeStatus `json:"nodes"` // by name
	Servers []string     `json:"servers"`
}

// A State is what a node does.
type State string

// States of nodes.
const (
	Owner     State = "owner"
	Level     State = "level"     // follows, and has all that the owner had written when it said so last
	Following State = "following" // has less
	Away      State = "away"      // has given no sign for 3 seconds
)

// A NodeStatus is a node as another one sees it.
type NodeStatus struct {
	Name    string   `json:"name"`
	Address string   `json:"address,omitempty"`
	Version string   `json:"version,omitempty"`
	State   State    `json:"state"`
	Behind  uint64   `json:"behind"`          // groups of changes that it doesn't have
	Lacks   []string `json:"lacks,omitempty"` // sealing keys that other nodes have
	Problem string   `json:"problem,omitempty"`
}

// A Comparison is what all copies are at one sequence.
type Comparison struct {
	Sequence uint64     `json:"sequence"`
	Nodes    []Checksum `json:"nodes"` // by name
}

// A Checksum is what the copy of a node is.
type Checksum struct {
	Name     string `json:"name"`
	Checksum string `json:"checksum,omitempty"`
	Problem  string `json:"problem,omitempty"` // why there is no checksum
}

// Equal reports whether at least one node has a checksum, and all that have one have the same.
func (c Comparison) Equal() bool {
	sum := ""
	for _, n := range c.Nodes {
		if n.Checksum == "" {
			continue
		}
		if sum != "" && n.Checksum != sum {
			return false
		}
		sum = n.Checksum
	}
	return sum != ""
}
