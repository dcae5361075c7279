//go:build linux

package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/store"
)

// token is what clients over TCP show.
const token = "a-token-of-the-cluster"

// A node is a process of the cluster, which ends and comes back.
type node struct {
	t       testing.TB
	name    string
	number  int
	binary  string
	home    string
	args    []string
	env     []string
	address string // for HTTP
	socket  string
	clock   *wallClock

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has
}

// nodes are all of them, and the links between them.
type nodes struct {
	t   testing.TB
	all [nodeCount]*node
	net *network
}

// startNodes starts three nodes, and kills them at the end of the test. Each of them listens for the others at an IP address of its own,
// and sees them at 127.0.0.1, where the proxies are: servers of NATS tell each other where they have seen a third one, and would
// go around the proxies.
func startNodes(t testing.TB, binary string, clocks bool) *nodes {
	t.Helper()
	dir := testkit.ShortDir(t)
	secret := filepath.Join(dir, "secret")
	c := &nodes{t: t}
	var routes [nodeCount]string
	for i := range routes {
		_, port, _ := net.SplitHostPort(testkit.Address(t))
		routes[i] = net.JoinHostPort(fmt.Sprint("127.0.0.", 11+i), port)
	}
	c.net = newNetwork(t, routes)
	for i := range c.all {
		n := &node{t: t, name: string(rune('a' + i)), number: i, binary: binary, home: filepath.Join(dir, fmt.Sprint(i)), address: testkit.Address(t)}
		sockets := filepath.Join(dir, fmt.Sprint("s", i))
		state := daemon.Home{Dir: n.home, Origin: store.DefaultOrigin}.State()
		err := errors.Join(os.MkdirAll(n.home, 0o700), os.Mkdir(sockets, 0o700), testkit.ShareEngine(state),
			os.WriteFile(filepath.Join(n.home, "token"), []byte(token), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		n.env = append(os.Environ(), "KERNOS_HOME="+n.home, "XDG_RUNTIME_DIR="+sockets, "KERNOS_ORIGIN=", "KERNOS_ADDR=", "SSH_AUTH_SOCK=")
		if clocks {
			n.clock = newWallClock(t, filepath.Join(n.home, "clock"))
			n.env = append(n.env, n.clock.variable())
		}
		n.args = []string{
			"serve", "--addr", n.address, "--cluster-name", n.name, "--cluster-listen", routes[i], "--cluster-secret", secret,
			"--cluster-peers", strings.Join(c.net.peers(i, routes[i]), ","),
		}
		c.all[i] = n
		t.Cleanup(n.kill)
	}
	if out, err := c.all[0].run("cluster", "init", "--cluster-secret", secret); err != nil {
		t.Fatalf("kernos cluster init: %v\n%s", err, out)
	}
	for _, n := range c.all {
		n.start()
	}
	return c
}

// run runs a command of the program in the home of the node.
func (n *node) run(args ...string) (string, error) {
	cmd := exec.Command(n.binary, args...)
	cmd.Env = n.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n *node) notes() string { return filepath.Join(n.home, "notes") }

// start starts the node, unless it runs.
func (n *node) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return
	}
	notes, err := os.OpenFile(n.notes(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Error(err)
		return
	}
	defer func() { _ = notes.Close() }()
	cmd := exec.Command(n.binary, n.args...)
	cmd.Env, cmd.Stderr = n.env, notes
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also if the test panics
	if err := cmd.Start(); err != nil {
		n.t.Error(err)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
		_ = appendTo(n.notes(), fmt.Sprintf("-- the process %d has ended: %v\n", cmd.Process.Pid, cmd.ProcessState))
	}()
	n.cmd, n.ended = cmd, ended
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// kill kills the node with SIGKILL, and returns when it is gone.
func (n *node) kill() {
	n.signal(syscall.SIGKILL)
	n.gone()
}

// gone waits until the process has ended.
func (n *node) gone() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		<-n.ended
	}
	n.cmd = nil
}

// signal sends the process a signal.
func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(s)
	}
}

// runs reports whether the process hasn't ended.
func (n *node) runs() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

var socketLine = regexp.MustCompile(`(?m)^ +socket +(/.+)$`)

// where returns the socket of the node; "" before it has one.
func (n *node) where() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.socket == "" {
		text, _ := os.ReadFile(n.notes())
		if found := socketLine.FindSubmatch(text); found != nil {
			n.socket = string(found[1])
		}
	}
	return n.socket
}

// status is what a node says about the cluster.
type status struct {
	Node, Owner string
	Nodes       []struct{ Name, State, Problem string }
}

func (s *status) state(node string) string {
	for _, n := range s.Nodes {
		if n.Name == node {
			return n.State
		}
	}
	return ""
}

// status asks a node for the cluster as it sees it.
func (n *node) status() (s status, ok bool) {
	d := &socketDoor{node: n}
	defer d.close()
	data, err := d.call("query", "Cluster.Status", `{}`, "")
	return s, err == nil && json.Unmarshal(data, &s) == nil
}

// owner returns the number of the node that other nodes than those left out see as the owner; -1 if there is none.
func (c *nodes) owner(except ...int) int {
	found := -1
	for _, n := range c.all {
		if contains(except, n.number) || !n.runs() {
			continue
		}
		s, ok := n.status()
		if !ok || s.Owner == "" {
			continue
		}
		for _, o := range c.all {
			// What the owner itself says counts.
			if o.name == s.Owner && !contains(except, o.number) && (found < 0 || s.Owner == s.Node) {
				found = o.number
			}
		}
	}
	return found
}

func contains(all []int, one int) bool {
	for _, n := range all {
		if n == one {
			return true
		}
	}
	return false
}

// waitOwner waits for an owner that isn't one of these.
func (c *nodes) waitOwner(except ...int) int {
	owner := -1
	c.until("a node owns", func() bool {
		owner = c.owner(except...)
		return owner >= 0
	})
	return owner
}

// waitAway waits until one of two nodes gives the other one no sign of life, or the servers have found a way around the cut.
func (c *nodes) waitAway(a, b int) {
	for begun := time.Now(); time.Since(begun) < detection; { // a route may go around the cut at once, and then nothing changes
		if s, ok := c.all[a].status(); ok && s.state(c.all[b].name) == "away" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// detection is longer than servers take to find out that a link is cut.
const detection = 10 * time.Second

// level waits until all nodes run and have what the owner has.
func (c *nodes) level() {
	c.until("all nodes are level", func() bool {
		for _, n := range c.all {
			s, ok := n.status()
			if !ok || s.Owner == "" || len(s.Nodes) != nodeCount {
				return false
			}
			for _, other := range s.Nodes {
				if other.State != "owner" && other.State != "level" {
					return false
				}
			}
		}
		return true
	})
}

// until waits for a condition; if a process ends that should run, the test has failed.
func (c *nodes) until(what string, is func() bool) {
	c.t.Helper()
	done := testkit.Poll(func() bool {
		defer time.Sleep(20 * time.Millisecond) // it asks processes
		for _, n := range c.all {
			n.mu.Lock()
			cmd, ended := n.cmd, n.ended
			n.mu.Unlock()
			if cmd == nil {
				continue
			}
			select {
			case <-ended:
				c.t.Errorf("node %s has ended by itself", n.name)
				return true
			default:
			}
		}
		return is()
	})
	if !done {
		c.t.Errorf("it is not so: %s", what)
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// tell logs what the nodes have noted, if the test has failed.
func (c *nodes) tell() {
	if !c.t.Failed() {
		return
	}
	for _, n := range c.all {
		if n.runs() {
			n.signal(syscall.SIGCONT)
			s, ok := n.status()
			c.t.Logf("node %s sees (%t): %+v", n.name, ok, s)
		}
		text, _ := os.ReadFile(n.notes())
		c.t.Logf("node %s has noted:\n%s", n.name, tail(text, 60))
		_ = filepath.WalkDir(n.home, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".log") && !strings.Contains(path, "store") {
				text, _ := os.ReadFile(path)
				c.t.Logf("%s:\n%s", path, tail(text, 60))
			}
			return nil
		})
		if to := os.Getenv("KERNOS_TEST_KEEP"); to != "" {
			c.t.Log(os.CopyFS(filepath.Join(to, n.name), os.DirFS(n.home)))
		}
	}
}

// tail returns the last lines of a text.
func tail(text []byte, lines int) string {
	all := bytes.Split(text, []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// check has the copies of all nodes compared by kernos cluster check.
func (c *nodes) check() {
	c.t.Helper()
	var out string
	var err error
	var found struct {
		Equal bool
		Nodes []struct{ Name, Checksum, Problem string }
	}
	for _, n := range c.all {
		out, err = n.run("cluster", "check", "--json")
		if err = cmp.Or(err, json.Unmarshal([]byte(out), &found)); err != nil {
			break
		}
	}
	if err != nil || !found.Equal || len(found.Nodes) != nodeCount {
		c.t.Errorf("the copies differ: %v\n%s", err, out)
	}
}
