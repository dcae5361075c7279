package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

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

// Check compares all copies at one sequence: the owner makes a mark in the log, and each node computes its checksum there.
// Nodes that are away, or whose copy doesn't get there while ctx lasts, have no checksum but a problem. Each node can be
// asked.
func (n *Node) Check(ctx context.Context) (Comparison, error) {
	owner, _ := n.Owner()
	var c Comparison
	var err error
	switch {
	case owner.Name == "":
		err = errors.New("no node owns at the moment; try again")
	case owner.Self:
		c.Sequence, err = n.mark(ctx, struct{}{})
	default:
		asking, cancel := context.WithTimeout(ctx, markTime)
		err = n.ask(asking, owner.Name, "mark", struct{}{}, &c.Sequence)
		cancel()
	}
	if err != nil {
		return Comparison{}, fmt.Errorf("the copies can't be compared: %w", err)
	}
	n.mu.Lock()
	names := []string{n.options.Name}
	for name := range n.presence.peers {
		names = append(names, name)
	}
	n.mu.Unlock()
	slices.SortFunc(names, strings.Compare)
	c.Nodes = make([]Checksum, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			sum, err := n.checksumOf(ctx, name, c.Sequence)
			c.Nodes[i] = Checksum{Name: name, Checksum: sum}
			if err != nil {
				c.Nodes[i].Problem = err.Error()
			}
		})
	}
	wg.Wait()
	return c, nil
}

// markTime bounds the wait for a mark of another node.
const markTime = 10 * time.Second

// checksumOf returns the checksum of a node's copy.
func (n *Node) checksumOf(ctx context.Context, name string, sequence uint64) (sum string, err error) {
	if name == n.options.Name {
		return n.checksum(ctx, sequence)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	asked := make(chan error, 1)
	go func() { asked <- n.ask(ctx, name, "checksum", sequence, &sum) }()
	tick := time.NewTicker(n.options.Lease / signs)
	defer tick.Stop()
	for here := n.here(name); ; here = n.here(name) {
		if !here {
			cancel(nil)
			<-asked
			return "", errors.New("it is away")
		}
		select {
		case err := <-asked:
			return sum, err
		case <-tick.C:
		}
	}
}

// here reports whether a node has given a sign of late.
func (n *Node) here(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.presence.peers[name]
	return p != nil && p.here(n.now(), n.options.Lease)
}

// mark makes a mark in the log, if this node owns.
func (n *Node) mark(ctx context.Context, _ struct{}) (sequence uint64, err error) {
	n.mu.Lock()
	s := n.store
	n.mu.Unlock()
	if s == nil {
		return 0, fmt.Errorf("the kernel of node %s doesn't run at the moment; try again", n.options.Name)
	}
	return s.Mark(ctx)
}

// checksum returns the checksum of this node's copy at a mark.
func (n *Node) checksum(ctx context.Context, sequence uint64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return n.copy.Checksum(ctx, sequence)
}

// checkTime bounds the work of a node on a checksum that another one has asked for and may have given up.
const checkTime = 10 * time.Minute
