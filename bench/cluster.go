package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	clusterNodes  = 3
	clusterRounds = 5
	clusterConns  = 64
)

// A trio is three nodes of a cluster on this machine, each with a server of NATS inside.
type trio struct {
	binary string
	dir    string
	nodes  []*daemon
	owner  int // the index of the node whose kernel runs
}

// startTrio starts the nodes, and returns when one of them owns.
func startTrio(binary string) (_ *trio, err error) {
	t := &trio{binary: binary}
	if t.dir, err = os.MkdirTemp("", "kernos-cluster-*"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.stop()
		}
	}()
	secret := filepath.Join(t.dir, "secret")
	initialize := exec.Command(binary, "cluster", "init", "--cluster-secret", secret)
	initialize.Env = append(os.Environ(), "KERNOS_HOME="+t.home(0), "XDG_RUNTIME_DIR="+t.dir)
	if out, err := initialize.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("kernos cluster init: %w: %s", err, out)
	}
	peers, err := freeAddresses(clusterNodes)
	if err != nil {
		return nil, err
	}
	started := make(chan error, clusterNodes)
	t.nodes = make([]*daemon, clusterNodes)
	for i := range clusterNodes {
		go func() { // a node is ready when a majority of them is there
			var err error
			t.nodes[i], err = startDaemon(binary, t.home(i), "--cluster-name", name(i), "--cluster-listen", peers[i],
				"--cluster-peers", strings.Join(peers, ","), "--cluster-secret", secret, "--addr", "127.0.0.1:0")
			started <- err
		}()
	}
	for range clusterNodes {
		err = errors.Join(err, <-started)
	}
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(50 * time.Millisecond) {
		status := exec.Command(binary, "cluster", "status", "--json")
		status.Env = append(os.Environ(), "KERNOS_HOME="+t.home(0), "XDG_RUNTIME_DIR="+t.nodes[0].dir)
		out, err := status.Output()
		var s struct{ Owner string }
		if err != nil || json.Unmarshal(out, &s) != nil {
			continue
		}
		for i := range clusterNodes {
			if s.Owner == name(i) {
				t.owner = i
				return t, nil
			}
		}
	}
	return nil, errors.New("no node of the cluster owns after a minute")
}

// sequence returns the last sequence of the cluster's log.
func (t *trio) sequence() (uint64, error) {
	check := exec.Command(t.binary, "cluster", "check", "--json")
	check.Env = append(os.Environ(), "KERNOS_HOME="+t.home(0), "XDG_RUNTIME_DIR="+t.nodes[0].dir)
	out, err := check.Output()
	var found struct{ Sequence uint64 }
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	return found.Sequence, err
}

// name returns the name of a node.
func name(i int) string { return string(rune('a' + i)) }

// home returns the home of a node.
func (t *trio) home(i int) string { return filepath.Join(t.dir, name(i)) }

func (t *trio) stop() {
	for _, d := range t.nodes {
		if d != nil {
			_ = d.stop()
		}
	}
	_ = os.RemoveAll(t.dir)
}

// freeAddresses returns addresses of this machine at which nothing listens.
func freeAddresses(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// compared are the figures of one thing in several rounds, and those of what it is compared with.
type compared struct{ ours, theirs []float64 }

func (c *compared) add(ours, theirs float64) {
	c.ours, c.theirs = append(c.ours, ours), append(c.theirs, theirs)
}

// median returns the median of each, and of the ratios of the rounds.
func (c *compared) median() (ours, theirs, ratio float64) {
	ratios := make([]float64, len(c.ours))
	for i := range ratios {
		ratios[i] = c.ours[i] / c.theirs[i]
	}
	middle := func(of []float64) float64 {
		of = slices.Clone(of)
		slices.Sort(of)
		return of[len(of)/2]
	}
	return middle(c.ours), middle(c.theirs), middle(ratios)
}

// clusters measures three nodes on this machine beside a client of NATS that publishes the same bytes, and beside a
// daemon without a cluster, in turns.
func clusters(out io.Writer, binary string) error {
	fmt.Fprintf(out, "\nA cluster of three nodes on this machine, with the servers inside; medians of %d rounds\n", clusterRounds)
	size, err := setSize()
	if err != nil {
		return err
	}
	t, err := startTrio(binary)
	if err != nil {
		return err
	}
	defer t.stop()
	alone, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(alone) }()
	plain, err := startDaemon(binary, alone)
	if err != nil {
		return err
	}
	defer func() { _ = plain.stop() }()
	p, err := startPublisher()
	if err != nil {
		return err
	}
	defer p.stop()
	owner, other := t.nodes[t.owner], t.nodes[(t.owner+1)%clusterNodes]

	var sets, lone compared
	var groups []int
	for round := range clusterRounds {
		before, err := t.sequence()
		if err != nil {
			return err
		}
		ours, err := setsPerSecond(owner.socket, round, 200)
		if err != nil {
			return err
		}
		after, err := t.sequence()
		if err != nil {
			return err
		}
		group := max(1, clusterConns*200/max(1, int(after-before)))
		groups = append(groups, group)
		theirs, err := p.perSecond(size, clusterConns, 200, group)
		if err != nil {
			return err
		}
		sets.add(ours, theirs)
		set, err := loneLatency(owner.socket, setLines(fmt.Sprintf("/lone/%d", round), 1, 1)[0], 300)
		if err != nil {
			return err
		}
		publish, err := p.latency(size, 300)
		if err != nil {
			return err
		}
		lone.add(set, publish)
	}
	ours, theirs, ratio := sets.median()
	fmt.Fprintf(out, "  durable Memory.Set, %d connections   %8.0f/s   published by nats in groups of %d, %d bytes each: %.0f/s   %.2f (at least 0.50)\n", clusterConns, ours, groups, size, theirs, ratio)
	ours, theirs, ratio = lone.median()
	fmt.Fprintf(out, "  a lone Memory.Set                   %8.0f µs   a lone publish: %.0f µs   %.2f (at most 1.60)\n", ours/1e3, theirs/1e3, ratio)

	get := getLines(1)
	get[0], get[1] = append(get[0], '\n'), append(get[1], '\n')
	for _, d := range []*daemon{owner, plain} {
		if _, err := loneLatency(d.socket, get[0], 1); err != nil {
			return err
		}
	}
	unrecorded := []byte(`{"kind":"query","type":"Ping","data":{"payload":"xxxxxxxxxxxxxxxxxxxx"},"metadata":{"id":"ping","timestamp":1735000000000,"repeated":true}}` + "\n")
	var gets, pings, passed compared
	for range clusterRounds {
		for _, m := range []struct {
			line []byte
			ours *daemon
			than *daemon
			to   *compared
		}{{get[1], owner, plain, &gets}, {unrecorded, owner, plain, &pings}, {get[1], other, owner, &passed}} {
			than, err := loneLatency(m.than.socket, m.line, 3000)
			if err != nil {
				return err
			}
			ours, err := loneLatency(m.ours.socket, m.line, 3000)
			if err != nil {
				return err
			}
			m.to.add(ours, than)
		}
	}
	for _, m := range []struct {
		what, beside, limit string
		of                  *compared
	}{
		{"a lone Memory.Get at the owner", "without a cluster", "at most 1.11", &gets},
		{"an unrecorded Ping at the owner", "without a cluster", "at most 1.11", &pings},
		{"a Memory.Get through another node", "at the owner", "at most 2.50", &passed},
	} {
		ours, theirs, ratio := m.of.median()
		fmt.Fprintf(out, "  %-35s %8.1f µs   %s: %.1f µs   %.2f (%s)\n", m.what, ours/1e3, m.beside, theirs/1e3, ratio, m.limit)
	}
	return recordedPings(out, owner, plain)
}

// recordedPings prints what recorded Pings take of the processor at the owner, and without a cluster.
func recordedPings(out io.Writer, owner, plain *daemon) error {
	const count = 50_000
	text := bytes.Join(append(smallLines(count), nil), []byte("\n"))
	var cost compared
	for range clusterRounds {
		var took [2]float64
		for i, d := range []*daemon{owner, plain} {
			conn, err := net.Dial("unix", d.socket)
			if err != nil {
				return err
			}
			before := cpuOf(d.cmd.Process.Pid)
			err = stream(conn, text, count)
			_ = conn.Close()
			if err != nil {
				return err
			}
			took[i] = float64(cpuOf(d.cmd.Process.Pid)-before) / count
		}
		cost.add(took[0], took[1])
	}
	ours, theirs, ratio := cost.median()
	fmt.Fprintf(out, "  a recorded Ping at the owner        %8.1f µs of a processor   without a cluster: %.1f µs   %.2f (at most 1.50)\n", ours/1e3, theirs/1e3, ratio)
	return nil
}

// setSize returns how many bytes a Memory.Set adds to the store, with its records.
func setSize() (int, error) {
	dir, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const count = 500
	batches, err := batchesOf(dir, true, func(p *place) (float64, error) { return p.pipelined(setLines("/size", benchKeys, count)) })
	if err != nil {
		return 0, err
	}
	size := 0
	for _, b := range batches {
		for _, op := range b.Ops {
			size += len(op.Key) + len(op.Value)
		}
	}
	return size / count, nil
}

// setsPerSecond makes connections that set keys, one command after the other each, and returns the commands per second of
// all.
func setsPerSecond(socket string, round, each int) (float64, error) {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	begun := time.Now()
	for i := range clusterConns {
		lines := setLines(fmt.Sprintf("/bench/%d/%d", round, i), 16, each)
		all.Go(func() {
			conn, err := net.Dial("unix", socket)
			if err == nil {
				err = askEach(conn, lines)
				_ = conn.Close()
			}
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(clusterConns*each) / time.Since(begun).Seconds(), nil
}

// loneLatency returns the median time in ns from a line to its answer, over a connection of its own.
func loneLatency(socket string, line []byte, count int) (float64, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	took, err := latency(conn, line, count)
	return float64(took), err
}
