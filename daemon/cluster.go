package daemon

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"kernos/capability/crypto"
	"kernos/cluster"
	natsserver "kernos/cluster/server"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/replicated"
	"kernos/store/replicated/jetstream"
)

// Cluster are the settings of a node of a cluster. Either Servers or Listen is set.
type Cluster struct {
	// Name is the name of the node. "" means the name of the host.
	Name string

	// Servers are the URLs of servers of NATS outside of the nodes, or context:NAME for a context of the nats command.
	Servers []string

	// Credentials, CA, Certificate and Key are files with which the nodes show these servers who they are, and the other way round.
	Credentials, CA, Certificate, Key string

	// Listen is the HOST:PORT of the server of NATS inside the node; Peers are the addresses of all nodes' servers, and Secret is the file with
	// which they know each other.
	Listen string
	Peers  []string
	Secret string

	// Address is the host, or the HOST:PORT, by which the other nodes reach this one's door. "" means the host of Listen, or the
	// address from which this machine reaches the others.
	Address string
}

// check reports settings that contradict each other.
func (c *Cluster) check() error {
	switch {
	case len(c.Servers) > 0 && (c.Listen != "" || len(c.Peers) > 0 || c.Secret != ""):
		return wrong("cluster", "servers outside of the nodes have no cluster-listen, cluster-peers and cluster-secret; leave those out, or cluster")
	case len(c.Servers) == 0 && c.Listen == "":
		return wrong("cluster-listen", "a node needs servers: name the address at which its own one listens for the others, or servers of NATS with cluster")
	case len(c.Peers) > 1 && c.Secret == "":
		return wrong("cluster-secret", "nodes know each other by a secret; make one with kernos cluster init, and give all of them the file")
	}
	for _, s := range c.Servers {
		if name, is := strings.CutPrefix(s, natsContext); is && (name == "" || len(c.Servers) > 1) {
			return wrong("cluster", "expected one context of the nats command, such as context:prod, got %q", s)
		} else if u, err := url.Parse(s); !is && (err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme)) {
			return wrong("cluster", "expected the URL of a server of NATS, such as nats://host:4222, got %q", s)
		}
	}
	for _, a := range append(slices.Clone(c.Peers), c.Listen) {
		if _, _, err := net.SplitHostPort(a); err != nil && a != "" {
			return wrong("cluster-peers", "expected HOST:PORT, got %q", a)
		}
	}
	if strings.ContainsFunc(c.Name, func(r rune) bool { return !nameRune(r) }) {
		return wrong("cluster-name", "the name of a node has letters, digits, hyphens and underscores, got %q", c.Name)
	}
	return nil
}

// schemes are those of the URLs of servers of NATS.
var schemes = []string{"nats", "tls", "ws", "wss"}

// natsContext begins the name of a context of the nats command.
const natsContext = "context:"

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// name returns the name of the node.
func (c *Cluster) name() string {
	if c.Name != "" {
		return c.Name
	}
	host, err := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	name := strings.Map(func(r rune) rune {
		if nameRune(r) {
			return r
		}
		return '-'
	}, host)
	if err != nil || name == "" {
		return "node"
	}
	return name
}

// hosts returns the HOST:PORT of the machines that the node connects to.
func (c *Cluster) hosts() (hosts []string) {
	for _, s := range c.Servers {
		if u, err := url.Parse(s); err == nil && u.Host != "" {
			hosts = append(hosts, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
		}
	}
	return append(hosts, c.Peers...)
}

// door returns the address at which the door listens, and the address by which other nodes reach it.
func (c *Cluster) door() (listen, address string) {
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = c.outward()
	}
	if c.Address == "" {
		return net.JoinHostPort(host, "0"), ""
	}
	if at, port, err := net.SplitHostPort(c.Address); err == nil {
		if ip := net.ParseIP(at); ip != nil && ip.IsLoopback() {
			return c.Address, c.Address
		}
		return net.JoinHostPort("", port), c.Address
	}
	return ":0", c.Address
}

// outward returns the address from which this machine reaches the others. Nothing is sent to find that out.
func (c *Cluster) outward() string {
	found := "127.0.0.1"
	for _, host := range c.hosts() {
		conn, err := net.Dial("udp", host)
		if err != nil {
			continue
		}
		a := conn.LocalAddr().(*net.UDPAddr).IP
		_ = conn.Close()
		if found = a.String(); !a.IsLoopback() {
			break
		}
	}
	return found
}

// shownServers returns the servers, for people.
func (c *Cluster) shownServers() []string {
	shown := []string{}
	for _, s := range c.Servers {
		if u, err := url.Parse(s); err == nil {
			s = u.Redacted()
		}
		shown = append(shown, s)
	}
	return append(shown, c.Peers...)
}

// replicas is how many servers keep the streams.
func (c *Cluster) replicas() int {
	if len(c.Servers) > 0 {
		return 3
	}
	return min(3, max(1, len(c.Peers)))
}

// servers are the connections of a node to the servers of the cluster, and what is on them.
type servers struct {
	own    *natsserver.Server // nil if the servers are outside
	conns  []*nats.Conn
	stream *jetstream.Stream // for entries and objects
	light  *jetstream.Stream // for records, on a connection of its own
	copy   *replicated.Copy
}

// openServers connects to the servers, which may take until other nodes are there, and opens the copy.
func (m *Member) openServers(ctx context.Context) (s *servers, err error) {
	s = new(servers)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.connect(ctx, m); err != nil {
		return s, err
	}
	options := jetstream.Options{Replicas: m.replicas, Synced: s.own != nil, Log: m.log}
	if s.stream, err = jetstream.Open(ctx, s.conns[0], options); err != nil {
		return s, err
	}
	if s.light, err = jetstream.Open(ctx, s.conns[1], options); err != nil {
		return s, err
	}
	engine := m.opts.Pebble
	engine.Log, engine.Address, engine.Watchers = m.log, m.lock.Path(), new(store.Watchers)
	s.copy, err = replicated.Open(m.home.Store(), s.stream.Log(m.home.Origin), &replicated.Options{Engine: &engine, Log: m.log})
	return s, err
}

// connect makes two connections: large entries don't keep records waiting.
func (s *servers) connect(ctx context.Context, m *Member) (err error) {
	c := &m.cluster
	connect := func() (*nats.Conn, error) { return s.own.Connect() }
	if len(c.Servers) == 0 {
		if err := s.start(ctx, m); err != nil {
			return err
		}
	} else {
		external := natsserver.External{
			Servers: c.Servers, Credentials: c.Credentials, CA: c.CA, Certificate: c.Certificate, Key: c.Key, Name: "kernos " + m.name, Log: m.log,
		}
		if name, is := strings.CutPrefix(c.Servers[0], natsContext); is {
			external.Servers, external.Context = nil, name
		}
		connect = func() (*nats.Conn, error) { return natsserver.Connect(ctx, external) }
	}
	for range 2 {
		conn, err := connect()
		if err != nil {
			return err
		}
		s.conns = append(s.conns, conn)
	}
	return nil
}

// start starts the server of NATS inside this process.
func (s *servers) start(ctx context.Context, m *Member) (err error) {
	o := natsserver.Options{Name: m.name, Listen: m.cluster.Listen, Peers: m.cluster.Peers, Dir: m.home.servers(), Log: m.log}
	if m.cluster.Secret != "" {
		if o.Secret, err = natsserver.ReadSecret(m.cluster.Secret); err != nil {
			return &OptionError{"cluster-secret", err}
		}
	}
	if s.own, err = natsserver.Start(o); err != nil {
		return err
	}
	return s.own.Ready(ctx)
}

// servers returns the folder of the server inside a node.
func (h Home) servers() string { return filepath.Join(h.State(), "servers") }

func (s *servers) close() (err error) {
	if s.copy != nil {
		err = s.copy.Close()
	}
	for _, c := range s.conns {
		c.Close()
	}
	if s.own != nil {
		s.own.Stop()
	}
	return err
}

// keys returns the names of the sealing keys that are on this machine. Keys that an ssh-agent has aren't listed.
func (m *Member) keys() []string {
	if name := crypto.FileKey(m.home.Key()); name != "" {
		return []string{name}
	}
	return nil
}

// shareBlobs gives the node the depot of blobs, and lends the blobs of this home to the other nodes until stop is called.
func (m *Member) shareBlobs(ctx context.Context, s *servers) (stop func(), err error) {
	dir, err := blobs.New(m.home.blobs())
	if err != nil {
		return nil, err
	}
	depot := cluster.Blobs(s.stream.Objects(), m.home.Origin)
	dir.SetDepot(depot)
	if s.copy.Founder() { // what other nodes get of its state names these blobs
		if err := dir.ShareAll(ctx); err != nil {
			return nil, err
		}
	}
	subject := cluster.LendSubject(s.stream.Name(), m.home.Origin)
	m.depot = cluster.Borrowing(depot, s.conns[0], subject)
	return cluster.Lend(dir, s.conns[0], subject)
}

// clusterNode is what a member needs of a [cluster.Node].
type clusterNode interface {
	Run(context.Context) error
	Owner() (cluster.Member, <-chan struct{})
	Stop(context.Context) error
	Move(ctx context.Context, name string) error
	Status() cluster.Status
	Check(context.Context) (cluster.Comparison, error)
	Leave(ctx context.Context, name string) error
}

// openNode connects to the cluster, and makes the node.
func (m *Member) openNode(ctx context.Context) (_ clusterNode, close func() error, err error) {
	s, err := m.openServers(ctx)
	if err != nil {
		return nil, nil, err
	}
	m.warn(s.stream.Warnings(ctx))
	if err := m.shareToken(ctx, s.light); err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	stopLending, err := m.shareBlobs(ctx, s)
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	var keeping sync.WaitGroup
	keeping.Go(func() { m.keepToken(m.ending, s.light) })
	at := m.door.Info()
	o := cluster.Options{
		Name: m.name, Stream: s.light, Copy: s.copy, Own: m.own, Door: cluster.Door(at), Address: m.address(), Version: m.opts.Version, Keys: m.keys, Log: m.log,
	}
	if s.own != nil {
		o.Servers = func() []string { return m.cluster.Peers }
	}
	node, err := cluster.Open(o)
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return node, func() error {
		stopLending()
		keeping.Wait()
		return s.close()
	}, nil
}
