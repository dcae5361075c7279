package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Status is a cluster as a node sees it.
type Status struct {
	Node    string       `json:"node"`  // the one that answers
	Owner   string       `json:"owner"` // empty if there is none
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

// Status returns what this node knows about the cluster.
func (n *Node) Status() Status {
	own := n.sign()
	n.mu.Lock()
	defer n.mu.Unlock()
	now, length := n.now(), n.options.Lease
	owner := n.member()
	s := Status{Node: own.Name, Owner: owner.Name, Epoch: owner.Epoch, Servers: []string{}}
	if n.options.Servers != nil {
		s.Servers = append(s.Servers, n.options.Servers()...)
	}
	self := &peer{sign: own, heard: now, ever: true}
	all := append(n.presence.alive(now, length), self)
	peers := append(slices.Collect(maps.Values(n.presence.peers)), self)
	slices.SortFunc(peers, func(a, b *peer) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range peers {
		one := NodeStatus{Name: p.Name, Address: p.Address, Version: p.Version, State: Away}
		if p.here(now, length) {
			one.State, one.Behind = Level, p.Behind
			one.Problem, one.Lacks = p.Unable, lacks(p.Keys, all)
			switch {
			case p.Name == owner.Name:
				one.State, one.Behind = Owner, 0
			case p.Behind > 0:
				one.State = Following
			}
		}
		s.Nodes = append(s.Nodes, one)
	}
	return s
}

// Leave takes a node that is away out of the status, or this one before it stops for good.
func (n *Node) Leave(ctx context.Context, name string) error {
	if s := n.sign(); name != s.Name {
		n.mu.Lock()
		p := n.presence.peers[name]
		here := p != nil && p.here(n.now(), n.options.Lease)
		n.mu.Unlock()
		switch {
		case p == nil:
			return n.unknown(name)
		case here:
			return fmt.Errorf("node %s runs: stop it first, or have it leave itself", name)
		}
	}
	err := n.members(ctx, func(all map[string]member) bool {
		_, found := all[name]
		delete(all, name)
		return found
	})
	if err != nil {
		return fmt.Errorf("the list of nodes can't be changed: %w", err)
	}
	n.mu.Lock()
	delete(n.presence.peers, name)
	n.mu.Unlock()
	s := n.sign()
	s.Removed = name
	n.say(s)
	return nil
}

// unknown is the error for a name that no node has.
func (n *Node) unknown(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	names := append(slices.Collect(maps.Keys(n.presence.peers)), n.options.Name)
	slices.Sort(names)
	return fmt.Errorf("the cluster has no node %q; it has %s", name, strings.Join(names, ", "))
}
