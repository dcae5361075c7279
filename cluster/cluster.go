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
//
// # Goroutines
//
// [Node.Run] starts, and waits for, one that ends it if it has to end, one that adds the node to the list of members, one
// that gives signs of life, one for each request of another node while it is answered, and, one or the other: one that
// follows, or one that runs the kernel, one that renews the lease, and one that waits for the store to be lost. They end
// with Run's ctx, or with what they work for. A successor is looked for, and copies are compared, on one goroutine for
// each node, which ends with its answer or when the node is away.
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

// Options of a node.
type Options struct {
	Name   string            // of the node: letters, digits, hyphens and underscores; different for each node
	Stream *jetstream.Stream // has the record of the owner; better on a connection that large entries don't use
	Copy   *replicated.Copy  // the caller closes it after Run

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
