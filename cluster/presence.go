package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
)

// A sign is what a node says about itself, twice per lease. The stream doesn't keep it.
type sign struct {
	Name     string        `json:"name"`
	Instance string        `json:"instance"`
	Address  string        `json:"address,omitempty"`
	Version  string        `json:"version,omitempty"`
	Role     State         `json:"role"`              // Owner, Following; or Away for the last one
	Unable   string        `json:"unable,omitempty"`  // why it can't take over
	Number   uint64        `json:"number"`            // of its last group that was accepted
	Behind   uint64        `json:"behind"`            // what it had less than the owner when it heard from it last
	Founder  bool          `json:"founder,omitempty"` // has a state that a new cluster begins with
	Keys     []string      `json:"keys,omitempty"`    // that it has
	Running  time.Duration `json:"running"`           // since when, in nanoseconds
	Removed  string        `json:"removed,omitempty"` // this node leaves the cluster
}

// A peer is another node, as it was last heard of.
type peer struct {
	sign
	heard time.Duration // by this node's clock
	ever  bool          // since this node runs; otherwise the stream has its name
}

// A presence is what a node knows of the others.
type presence struct {
	peers map[string]*peer // by name
}

// alive returns the nodes that gave a sign of late, by name.
func (p *presence) alive(now, lease time.Duration) []*peer {
	var alive []*peer
	for _, name := range slices.Sorted(maps.Keys(p.peers)) {
		if o := p.peers[name]; o.here(now, lease) {
			alive = append(alive, o)
		}
	}
	return alive
}

// here reports whether a node gave a sign of late.
func (o *peer) here(now, lease time.Duration) bool {
	return o.ever && o.Role != Away && now-o.heard < missed*lease/signs
}

// candidate reports whether a node could take over.
func (o *peer) candidate(now, lease time.Duration) bool {
	return o.here(now, lease) && o.Role == Following && o.Unable == ""
}

// lacks returns the keys that the others have and a node lacks.
func lacks(own []string, others []*peer) []string {
	var missing []string
	for _, o := range others {
		for _, key := range o.Keys {
			if !slices.Contains(own, key) && !slices.Contains(missing, key) {
				missing = append(missing, key)
			}
		}
	}
	slices.Sort(missing)
	return missing
}

// turn returns how many nodes take over rather than this one, and whether one of them has what this one lacks: a key, or
// the state for a new cluster. Nodes with all keys go first, then nodes with more of the log.
func (p *presence) turn(own sign, now, lease time.Duration) (before int, wait bool) {
	alive := p.alive(now, lease)
	missing := func(s *sign) int {
		all := lacks(s.Keys, append(alive, &peer{sign: own}))
		return len(all)
	}
	mine := missing(&own)
	for _, o := range alive {
		if !o.candidate(now, lease) {
			continue
		}
		theirs := missing(&o.sign)
		founder := o.Founder && !own.Founder
		switch {
		case own.Founder && !o.Founder:
		case founder, cmp.Or(cmp.Compare(theirs, mine), cmp.Compare(own.Number, o.Number), cmp.Compare(o.Name, own.Name)) < 0:
			before++
			wait = wait || founder || theirs < mine
		}
	}
	return before, wait
}

// sign returns what this node says about itself.
func (n *Node) sign() sign {
	position := n.copy.Position()
	s := sign{
		Name: n.options.Name, Instance: n.instance, Address: n.options.Address, Version: n.options.Version,
		Role: Following, Number: position.Accepted, Founder: n.copy.Founder(), Running: n.now(),
	}
	if n.options.Keys != nil {
		s.Keys = n.options.Keys()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.stopping:
		s.Unable = "it stops"
	default:
	}
	switch {
	case n.gone:
		s.Role = Away
	case n.owning:
		s.Role = Owner
	default:
		s.Behind = n.behind
		if s.Running < n.retry {
			s.Unable = n.unable
		}
	}
	return s
}

// announce gives a sign of life.
func (n *Node) announce() { n.say(n.sign()) }

func (n *Node) say(s sign) {
	data, err := json.Marshal(s)
	if err == nil {
		err = n.bus.publish(n.subject("sign"), data)
	}
	if err != nil {
		n.log.Debug("a sign of life can't be sent", "error", err)
	}
}

// announces gives signs of life until ctx is done.
func (n *Node) announces(ctx context.Context) {
	for {
		n.announce()
		if !sleep(ctx, n.options.Lease/signs) {
			return
		}
	}
}

// heard notes the sign of a node.
func (n *Node) heard(data []byte, _ func([]byte)) {
	var s sign
	if err := json.Unmarshal(data, &s); err != nil || s.Name == "" {
		n.log.Warn("the sign of a node can't be read", "error", err)
		return
	}
	if s.Instance == n.instance {
		return
	}
	if s.Name == n.options.Name {
		if running := n.now(); s.Role != Away && s.Running >= running {
			n.fail(errors.New("another node that runs has the name " + s.Name + ": give each node a name of its own"))
		}
		return
	}
	number := n.copy.Position().Accepted
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.Removed != "" {
		delete(n.presence.peers, s.Removed)
	}
	if s.Removed == s.Name {
		return
	}
	before := n.presence.peers[s.Name]
	if before != nil && before.Instance == s.Instance && s.Running < before.Running {
		return // was overtaken
	}
	n.presence.peers[s.Name] = &peer{sign: s, heard: n.now(), ever: true}
	if s.Role == Owner && s.Instance == n.seen.record.Instance {
		n.behind, n.goal = s.Number-min(s.Number, number), s.Number
	}
	if s.Role != Away && (before == nil || !before.ever || before.Instance != s.Instance) {
		n.work.Go(n.announce) // it wants to know who is here
	}
}

// A member of the cluster is a node that the stream knows by name, also while it is away.
type member struct {
	Address string `json:"address,omitempty"`
	Version string `json:"version,omitempty"`
}

// enroll reads who the members are, and adds this node, until it has or ctx is done.
func (n *Node) enroll(ctx context.Context) {
	self := member{n.options.Address, n.options.Version}
	for {
		err := n.members(ctx, func(all map[string]member) bool {
			before, found := all[n.options.Name]
			all[n.options.Name] = self
			return !found || before != self
		})
		if err == nil {
			return
		}
		n.log.Debug("the list of nodes can't be changed", "error", err)
		if !sleep(ctx, n.options.Lease) {
			return
		}
	}
}

// members reads the list of members, and puts it if change has changed it.
func (n *Node) members(ctx context.Context, change func(map[string]member) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r := register{n.messages, n.nodes}
	for {
		all := make(map[string]member)
		after, err := r.last(ctx, &all, false)
		if err != nil {
			return err
		}
		if change(all) {
			if _, err = r.put(ctx, all, after); err != nil { // another node was faster, or it isn't known: read again
				if !sleep(ctx, n.options.Lease/retries) {
					return err
				}
				continue
			}
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for name, m := range all {
			if n.presence.peers[name] == nil && name != n.options.Name {
				n.presence.peers[name] = &peer{sign: sign{Name: name, Address: m.Address, Version: m.Version}}
			}
		}
		return nil
	}
}

// sleep waits, and reports whether ctx isn't done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
