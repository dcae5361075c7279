package doctor

import (
	"context"
	"strings"
)

// checkCluster reports on the cluster of a member, as its node sees it. What comes after it may be answered by another node.
func (d *doctor) checkCluster(ctx context.Context) bool {
	if d.Daemon == nil || !d.Daemon.IsMember() {
		return true
	}
	status, err := d.Daemon.Status(ctx)
	if err != nil || status.Cluster == nil {
		d.doubtful("cluster", "start it with kernos serve", "this home is a member of a cluster, and its node doesn't answer")
		return true
	}
	c := status.Cluster
	away := 0
	for _, n := range c.Nodes {
		switch {
		case n.State == "away":
			away++
			d.doubtful("cluster", "start it, or take it out with kernos cluster forget "+n.Name, "the node %s is away", n.Name)
		case n.Problem != "":
			d.wrong("cluster", "see its log", "the node %s: %s", n.Name, n.Problem)
		case len(n.Lacks) > 0:
			d.doubtful("cluster", "copy the key file, or give the node the keys by its ssh-agent",
				"the node %s lacks the sealing keys %s, so it takes over only if no other node can", n.Name, strings.Join(n.Lacks, ", "))
		}
	}
	for _, w := range c.Warnings {
		text, advice, _ := strings.Cut(w, "; ")
		if advice == "" {
			advice = "see kernos docs cluster"
		}
		d.doubtful("cluster", advice, "%s", text)
	}
	switch {
	case c.Problem != "":
		d.wrong("cluster", "see its log", "%s", c.Problem)
	case c.Owner == "":
		d.wrong("cluster", "a majority of the servers has to run: "+strings.Join(c.Servers, ", "), "no node owns the kernel at the moment")
	default:
		d.well("cluster", "%s owns the kernel; %d of %d nodes are there", c.Owner, len(c.Nodes)-away, len(c.Nodes))
	}
	return true
}
