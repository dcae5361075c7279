// Package server is the way from a node of a cluster to the servers of NATS: a server inside this process, which finds
// the servers of the other nodes, or servers outside.
//
//	s, err := server.Start(server.Options{Name: "a", Listen: "10.0.0.1:6222", Peers: peers, Dir: dir, Secret: secret})
//	err = s.Ready(ctx)      // a majority of the servers has a leader
//	nc, err := s.Connect() // within the process
//
// # Inside
//
// The servers talk to each other on one address, with TLS 1.3 and certificates of both sides, unless all addresses are
// on this machine. The keys come from the secret of the cluster (secret.go): the same secret makes the same authority,
// and each server signs a certificate for itself at start. Certificates don't expire, because a node must not
// leave the cluster when its clock is wrong. A server inside listens for no clients: connections are made within the
// process. Each message is on the disk before a server confirms it.
//
// The server of NATS has goroutines of its own, and [Server.Stop] returns when these have ended.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Options of a server inside the process.
type Options struct {
	Name   string       // of this node; different for each node of the cluster
	Listen string       // HOST:PORT for the servers of other nodes
	Peers  []string     // HOST:PORT of every node of the cluster, this one included; none: the server is alone
	Dir    string       // has the streams
	Secret []byte       // what [ReadSecret] returns; may be nil only if the server is alone
	TLS    bool         // also if all addresses are on this machine
	Log    *slog.Logger // nothing is logged if nil
}

// A Server is a running server.
type Server struct {
	options Options
	nats    *natsserver.Server
	log     *logger
	secure  bool // with TLS
}

// payload is the size of the largest message, in bytes. What is larger takes a longer way, by the object store.
const payload = 4 << 20

// unlisted is a port that doesn't exist. The server of NATS looks for the servers of other nodes only after it has tried
// to listen for clients, and goes on without clients if that fails.
const unlisted = 1 << 16

// Start starts a server, and returns when it listens. It isn't a member of a majority yet: see [Server.Ready].
func Start(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{options: o, log: &logger{to: o.Log}}
	n := &natsserver.Options{
		ServerName:             o.Name,
		DontListen:             true,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
		JetStream:              true,
		StoreDir:               o.Dir,
		SyncAlways:             true,
		MaxPayload:             payload,
		JetStreamMaxMemory:     1 << 30, // consumers only
		JetStreamMaxStore:      1 << 50, // the disk is the limit
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the directory for the streams of the cluster: %w", err)
	}
	if len(o.Peers) > 0 {
		if err := s.route(n); err != nil {
			return nil, err
		}
	}
	server, err := natsserver.NewServer(n)
	if err != nil {
		return nil, fmt.Errorf("the NATS server inside: %w", err)
	}
	server.SetLoggerV2(s.log, false, false, false)
	s.nats = server
	server.Start()
	if err := s.started(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// route fills in how the server finds the servers of other nodes.
func (s *Server) route(n *natsserver.Options) error {
	o := s.options
	host, port, err := split(o.Listen)
	if err != nil {
		return fmt.Errorf("the address for the servers of other nodes, %q: %w; give it as HOST:PORT", o.Listen, err)
	}
	if len(o.Secret) == 0 {
		return errors.New("the nodes of a cluster need a secret that they share: make one with kernos cluster init, " +
			"copy it to each machine, and name it with --cluster-secret FILE")
	}
	if err := free(o.Listen); err != nil {
		return err
	}
	keys, err := derive(o.Secret)
	if err != nil {
		return err
	}
	n.DontListen, n.Host, n.Port = false, "127.0.0.1", unlisted
	n.Cluster = natsserver.ClusterOpts{
		Name: "kernos", Host: host, Port: port, Username: "kernos", Password: keys.password,
		NoAdvertise:  true,
		PingInterval: 2 * time.Second, // a peer that was cut off is found out soon
		MaxPingsOut:  3,
	}
	if s.secure = o.TLS || !local(o.Listen) || !onlyLocal(o.Peers); s.secure {
		if n.Cluster.TLSConfig, err = keys.tls(o.Name); err != nil {
			return err
		}
		n.Cluster.TLSTimeout = 10
	}
	for _, p := range o.Peers {
		if _, _, err := split(p); err != nil {
			return fmt.Errorf("the address of a node, %q: %w; give it as HOST:PORT", p, err)
		}
		n.Routes = append(n.Routes, &url.URL{Scheme: "nats-route", User: url.UserPassword("kernos", keys.password), Host: p})
	}
	return nil
}

// split splits an address into its host and port.
func split(address string) (string, int, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return "", 0, fmt.Errorf("the port %q isn't a number from 1 to 65535", port)
	}
	return host, int(number), nil
}

// onlyLocal reports whether all addresses are on this machine.
func onlyLocal(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(a string) bool { return !local(a) })
}

// local reports whether an address can be reached from this machine only.
func local(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost"
}

// free returns an error if an address can't be listened on.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the address %s is in use: another node or program listens there; "+
			"stop it, or give another one with --cluster-listen", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("the address %s isn't one of this machine; give one that is with --cluster-listen", address)
	}
	return fmt.Errorf("the address for the servers of other nodes: %w", err)
}

// started waits until the server listens.
func (s *Server) started() error {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if err := s.log.failure(); err != nil {
			return err
		}
		if s.nats.JetStreamEnabled() && (len(s.options.Peers) == 0 || s.nats.ClusterAddr() != nil) {
			return nil
		}
		if time.Since(begun) > time.Minute {
			return errors.New("the NATS server inside didn't start within a minute; its log says more")
		}
	}
}

// Ready waits until a majority of the servers has elected a leader, and this one is level with it.
func (s *Server) Ready(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if len(s.options.Peers) == 0 || s.leader() != "" && s.nats.JetStreamIsCurrent() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("a majority of the %d servers of the cluster wasn't found: %s (%w)",
				len(s.options.Peers), s.Status().Problem, context.Cause(ctx))
		}
	}
}

// leader returns the name of the server that leads the cluster.
func (s *Server) leader() string {
	info, err := s.nats.Jsz(nil)
	if err != nil || info.Meta == nil {
		return ""
	}
	return info.Meta.Leader
}

// Connect opens a connection to this server within the process. It is restored whenever it breaks, until it is closed.
func (s *Server) Connect() (*nats.Conn, error) {
	return nats.Connect("", append(lasting(s.options.Log), nats.InProcessServer(s.nats), nats.Name("kernos "+s.options.Name))...)
}

// Addr returns the address that the server listens on for other nodes, or "" if it is alone.
func (s *Server) Addr() string {
	if a := s.nats.ClusterAddr(); a != nil {
		return a.String()
	}
	return ""
}

// Secure reports whether the servers talk with TLS.
func (s *Server) Secure() bool { return s.secure }

// Stop stops the server, and returns when nothing of it runs. What this server leads is handed over first.
func (s *Server) Stop() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// Status is a server and its peers.
type Status struct {
	Name    string
	Leader  string // the name of the node whose server leads the cluster; empty if there is none
	Peers   []Peer // the servers of other nodes that this one has seen
	Missing int    // servers of other nodes that aren't connected
	Problem string // what keeps the servers apart, with what to do; empty if nothing is known
}

// A Peer is the server of another node.
type Peer struct {
	Name      string
	Address   string // where it was reached; its host only, if it has opened the connection
	Connected bool
	Level     bool // it has all that the leader has, as far as this server knows
}

// Status returns which servers are there.
func (s *Server) Status() Status {
	status := Status{Name: s.options.Name, Leader: s.leader()}
	peers := make(map[string]*Peer)
	if routes, err := s.nats.Routez(nil); err == nil {
		for _, r := range routes.Routes {
			p := peers[r.RemoteName]
			if p == nil {
				p = &Peer{Name: r.RemoteName, Address: r.IP, Connected: true}
				peers[r.RemoteName] = p
			}
			if r.DidSolicit {
				p.Address = net.JoinHostPort(r.IP, strconv.Itoa(r.Port))
			}
		}
	}
	status.Missing = max(0, len(s.options.Peers)-1-len(peers))
	if info, err := s.nats.Jsz(nil); err == nil && info.Meta != nil {
		for _, r := range info.Meta.Replicas {
			if strings.HasPrefix(r.Name, "Server name unknown") {
				continue
			}
			if peers[r.Name] == nil {
				peers[r.Name] = &Peer{Name: r.Name}
			}
			peers[r.Name].Level = r.Current && !r.Offline
		}
	}
	for _, p := range peers {
		p.Level = p.Level || p.Name == status.Leader
		status.Peers = append(status.Peers, *p)
	}
	slices.SortFunc(status.Peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case !s.nats.JetStreamEnabled():
		status.Problem = "the NATS server inside has stopped keeping streams, for example because the disk is full: its log says more; " +
			"make room, and start this node again"
	case status.Missing > 0:
		if status.Problem = s.log.stranger(); status.Problem == "" {
			status.Problem = fmt.Sprintf("%d of the servers at %s can't be reached from %s: check that their nodes run, "+
				"and that no firewall is in the way", status.Missing, strings.Join(s.options.Peers, ", "), s.options.Listen)
		}
	}
	return status
}
