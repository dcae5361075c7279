package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	capcluster "kernos/capability/cluster"
	"kernos/capability/lifecycle"
	"kernos/cluster"
	"kernos/cluster/door"
	"kernos/internal/backoff"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	httpd "kernos/transport/http"
	"kernos/transport/unix"
)

// A Member is a node of a cluster: a process that has a socket and a TCP address for as long as it runs, and a [Daemon] behind
// them while it owns the kernel. While another node does, it passes on what comes.
type Member struct {
	opts    Options
	cluster Cluster
	name    string
	home    Home
	log     *slog.Logger
	started time.Time

	lock *unix.Listener
	tcp  net.Listener // nil if there is none
	tls  *tls.Config  // of tcp; nil if it has none
	door *door.Door

	depot    blobs.Depot // has copies of the blobs; set before the node runs
	replicas int         // servers that keep the streams; tests have fewer

	own0    *kernel.Kernel // answers what is about this node
	lines   *door.Lines
	web     *door.Web
	ending  context.Context // done when the process is to end
	end     context.CancelCauseFunc
	serving chan struct{}
	joined  chan struct{} // closed when the cluster has been reached

	moving sync.WaitGroup // moves to other nodes that continue without their callers

	mu       sync.Mutex // guards what follows
	daemon   *Daemon    // nil unless this node owns the kernel
	doors    *doors     // of the daemon
	node     clusterNode
	changed  chan struct{} // closed when one of these changes
	warnings []string
	problem  string
	known    func(string) bool // whether a method is a query
}

// OpenMember takes the socket and the addresses of a node of a cluster; Serve makes it one. The options need a Socket, a Web and a
// Cluster. Its errors are the errors of [Open]. The caller closes the member.
func OpenMember(o *Options) (_ *Member, err error) {
	m := &Member{opts: *o, cluster: *o.Cluster, started: time.Now(), serving: make(chan struct{}), joined: make(chan struct{}), changed: make(chan struct{})}
	m.opts.Log = cmp.Or(m.opts.Log, slog.New(slog.DiscardHandler))
	m.log, m.name, m.replicas = m.opts.Log, m.cluster.name(), m.cluster.replicas()
	if o.Home == "" || o.Socket == nil || o.Web == nil {
		return nil, errors.New("a node of a cluster needs a home, a socket and a web: set them in the Options")
	}
	if err := m.opts.Check(); err != nil {
		return nil, err
	}
	if m.home, err = FindHome(o.Home, o.Origin); err != nil {
		return nil, err
	}
	m.ending, m.end = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.lock, err = lockSocket(m.home, &m.opts, m.started); err != nil {
		return nil, err
	}
	if err := m.listen(); err != nil {
		return nil, err
	}
	listen, address := m.cluster.door()
	if m.door, err = door.Open(&door.Options{Listen: listen, Address: address, Log: m.log}); err != nil {
		return nil, &OptionError{"cluster-address", err}
	}
	if m.own0, err = m.ownKernel(); err != nil {
		return nil, err
	}
	m.lines = &door.Lines{
		Way: m.way, Own: m.answerOwn, HungUp: hungUp, Opaque: m.opts.signed(), Log: m.log,
	}
	m.web = door.NewWeb(&door.WebOptions{Way: m.way, Query: m.isQuery, Log: m.log})
	return m, nil
}

// listen takes the TCP address.
func (m *Member) listen() (err error) {
	o := m.opts.Web
	if o.Address == "" || m.opts.signed() && !o.InsecureWithoutSignature {
		return nil
	}
	if m.tcp, err = o.listen(m.log); err != nil || m.tcp == nil || o.CertFile == "" {
		return err
	}
	certificate, err := httpd.OpenCertificate(o.CertFile, o.KeyFile, m.log)
	if err != nil {
		return &OptionError{"tls-cert", err}
	}
	m.tls = certificate.Config()
	return nil
}

func hungUp(conn net.Conn) bool {
	c, ok := conn.(*net.UnixConn)
	return ok && unix.HungUp(c)
}

// ownKernel returns a kernel that answers what is about this node, also while another node owns the kernel of the home. It has no state.
func (m *Member) ownKernel() (*kernel.Kernel, error) {
	r, err := kernel.NewRegistry()
	if err != nil {
		return nil, err
	}
	if err := r.Add(lifecycle.Module(lifecycle.Options{Registry: r, Status: m.Status, Shutdown: m.Shutdown}), m.module()); err != nil {
		return nil, err
	}
	return kernel.New(r, &kernel.Options{Log: m.log}), nil
}

// ownTypes are the messages that a node answers itself if they come to its socket: they are about the node.
var ownTypes = map[message.Type]bool{
	"Kernel.Status": true, kernel.ShutdownType: true,
	capcluster.StatusType: true, capcluster.MoveType: true, capcluster.CheckType: true, capcluster.ForgetType: true,
}

// answerOwn answers a message of the owner of the home that is about this node.
func (m *Member) answerOwn(ctx context.Context, request *message.Message) (answer message.Message, own bool) {
	if !ownTypes[request.Type] {
		return answer, false
	}
	m.own0.Handle(ctx, request.Clone(), func(one message.Message) {
		if one.Kind.Answers() {
			answer = one.Clone()
		}
	})
	return answer, true
}

// isQuery reports whether a method, such as memory/get, is a query of kernos itself.
func (m *Member) isQuery(method string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		queries := make(map[string]bool)
		if r, err := Definitions(); err == nil {
			for _, group := range r.All().Modules() {
				for _, d := range group.Syscalls {
					module, name := kernel.Method(d.Type)
					queries[module+"/"+name] = d.Kind == message.KindQuery
				}
			}
		}
		m.known = func(method string) bool { return queries[method] }
	}
	return m.known(method)
}

// module returns the syscalls about the cluster.
func (m *Member) module() kernel.Module {
	return clusterModule(func() *Member { return m })
}

// clusterModule returns the syscalls about the cluster of a member; for definitions, it is never asked for one.
func clusterModule(of func() *Member) kernel.Module {
	return capcluster.Module(capcluster.Options{
		Status: func() lifecycle.Cluster { return of().ClusterStatus() },
		Move:   func(ctx context.Context, name string) (bool, error) { return of().move(ctx, name) },
		Check: func(ctx context.Context) (out capcluster.Comparison, err error) {
			node, err := of().ready()
			if err != nil {
				return out, err
			}
			found, err := node.Check(ctx)
			out = capcluster.Comparison{Sequence: found.Sequence, Equal: found.Equal(), Nodes: []capcluster.Checksum{}}
			for _, n := range found.Nodes {
				out.Nodes = append(out.Nodes, capcluster.Checksum(n))
			}
			return out, err
		},
		Forget: func(ctx context.Context, name string) error {
			node, err := of().ready()
			if err != nil {
				return err
			}
			return node.Leave(ctx, name)
		},
	})
}

// move hands the kernel to another node. If this one owns it, the caller may be one of its calls, which it finishes before it ends: then
// the move continues without the caller.
func (m *Member) move(ctx context.Context, name string) (done bool, err error) {
	node, err := m.ready()
	if err != nil {
		return false, err
	}
	if m.Daemon() == nil {
		err := node.Move(ctx, name)
		return err == nil, err
	}
	state := cluster.Away
	for _, n := range node.Status().Nodes {
		if n.Name == name {
			state = n.State
		}
	}
	switch state {
	case cluster.Owner:
		return true, nil
	case cluster.Away:
		return false, message.Errorf(409, "No node %q is there; kernos cluster status shows the nodes", message.Clip(name, 100))
	case cluster.Following:
		return false, message.Errorf(409, "The node %s doesn't have all changes yet; try again", name)
	}
	m.moving.Go(func() {
		moving, cancel := context.WithTimeout(m.ending, handover+m.opts.Limits.Grace)
		defer cancel()
		if err := node.Move(moving, name); err != nil {
			m.log.Warn("the kernel wasn't moved", "node", name, "error", err)
		}
	})
	return false, nil
}

// ready returns the node, or an error for the caller if it isn't connected to the cluster yet.
func (m *Member) ready() (clusterNode, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.node == nil {
		return nil, message.Errorf(503, "This node isn't connected to the servers of the cluster yet; try again")
	}
	return m.node, nil
}

// Home returns where the node keeps its state.
func (m *Member) Home() Home { return m.home }

// Name returns the name of the node.
func (m *Member) Name() string { return m.name }

// Shutdown makes Serve return, after another node has taken over if this one owns the kernel. It does not wait.
func (m *Member) Shutdown() { m.end(ErrShutdown) }

// ShutdownRequested is closed when Shutdown has been called, by the program or for a client.
func (m *Member) ShutdownRequested() <-chan struct{} { return m.ending.Done() }

// Serving is closed when Serve has begun.
func (m *Member) Serving() <-chan struct{} { return m.serving }

// Joined is closed when the cluster has been reached: from then on the home has a copy.
func (m *Member) Joined() <-chan struct{} { return m.joined }

// URLs returns the addresses that are served.
func (m *Member) URLs() []string {
	urls := []string{"unix://" + m.lock.Path(), "http+unix://" + m.lock.Path()}
	if m.tcp != nil {
		urls = append(urls, m.address())
	}
	return urls
}

// address returns the URL of the TCP address; "" if there is none.
func (m *Member) address() string {
	switch {
	case m.tcp == nil:
		return ""
	case m.tls != nil:
		return "https://" + m.tcp.Addr().String()
	}
	return "http://" + m.tcp.Addr().String()
}

// Alive returns nil if the node answers before ctx is done, and its kernel if it has one.
func (m *Member) Alive(ctx context.Context) error {
	m.mu.Lock()
	d := m.daemon
	m.mu.Unlock()
	if d == nil {
		return nil
	}
	return d.Alive(ctx)
}

// Daemon returns the daemon of this node; nil unless the node owns the kernel.
func (m *Member) Daemon() *Daemon {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.daemon
}

// set notes what has changed, and wakes those that wait for it.
func (m *Member) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	close(m.changed)
	m.changed = make(chan struct{})
}

// warn notes what the servers don't promise.
func (m *Member) warn(warnings []string) {
	for _, w := range warnings {
		m.log.Warn("the cluster doesn't promise all that it could", "warning", w)
	}
	m.set(func() { m.warnings = warnings })
}

// Warnings returns what isn't promised with these servers and settings.
func (m *Member) Warnings() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.warnings
}

// Status reports how this node is doing, as Kernel.Status does: how its kernel is, if it has one.
func (m *Member) Status() lifecycle.Status {
	if d := m.Daemon(); d != nil {
		return d.Status()
	}
	now := time.Now()
	about := m.ClusterStatus()
	return lifecycle.Status{
		Version: m.opts.Version, PID: os.Getpid(), Started: m.started.UnixMilli(), Uptime: now.Sub(m.started).Round(time.Millisecond).Seconds(),
		Home: m.home.Dir, Origin: string(m.home.Origin), Socket: m.lock.Path(), Listening: m.URLs(), Cluster: &about, Handlers: []lifecycle.Handler{},
	}
}

// ClusterStatus reports on the cluster, as this node sees it.
func (m *Member) ClusterStatus() lifecycle.Cluster {
	m.mu.Lock()
	node, warnings, problem := m.node, m.warnings, m.problem
	m.mu.Unlock()
	out := lifecycle.Cluster{Node: m.name, Nodes: []lifecycle.Node{}, Servers: m.cluster.shownServers(), Warnings: warnings, Problem: problem}
	if node == nil {
		out.Problem = cmp.Or(out.Problem, "this node waits for the servers of the cluster")
		return out
	}
	s := node.Status()
	out.Owner, out.Epoch = s.Owner, s.Epoch
	if len(s.Servers) > 0 {
		out.Servers = s.Servers
	}
	for _, n := range s.Nodes {
		out.Nodes = append(out.Nodes, lifecycle.Node{
			Name: n.Name, Address: n.Address, Version: n.Version, State: string(n.State), Behind: n.Behind, Lacks: n.Lacks, Problem: n.Problem,
		})
	}
	return out
}

// Serve makes the process a node of its cluster until ctx is done or Shutdown is called, and hands over first. It is called once.
func (m *Member) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { m.end(context.Cause(ctx)) })
	defer stop()
	m.log.Info("serving", "version", m.opts.Version, "pid", os.Getpid(), "urls", m.URLs(), "home", m.home.Dir, "origin", m.home.Origin, "node", m.name, "door", m.door.Info().Address)
	close(m.serving)

	// The node ends first, and then what passes on: others may be waiting for the next owner.
	accepting, stopAccepting := context.WithCancel(context.Background())
	defer stopAccepting()
	var running sync.WaitGroup
	var failed error
	var failing sync.Mutex
	run := func(f func() error) {
		running.Go(func() {
			if err := f(); err != nil {
				failing.Lock()
				failed = errors.Join(failed, err)
				failing.Unlock()
				m.end(err)
			}
		})
	}
	m.accept(accepting, run)
	err := m.live()
	m.end(err)
	stopAccepting()
	running.Wait()
	m.log.Info("stopped", "reason", fmt.Sprint(context.Cause(m.ending)))
	return errors.Join(err, failed)
}

// live connects to the cluster, and is a node of it until the process is to end.
func (m *Member) live() error {
	node, closing, err := m.connect()
	if node == nil {
		return err
	}
	m.set(func() { m.node, m.problem = node, "" })
	close(m.joined)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	select {
	case err = <-ended:
	case <-m.ending.Done():
		handing, done := context.WithTimeout(context.Background(), handover+m.opts.Limits.Grace)
		err = node.Stop(handing)
		done()
		if err != nil {
			m.log.Warn("no other node has taken over", "error", err)
		}
		cancel()
		if err = <-ended; errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	m.end(err)
	m.moving.Wait()
	return errors.Join(err, closing())
}

// handover is how long another node may take to take over, in addition to what runs here and is finished.
const handover = 5 * time.Second

// connect connects to the cluster, for which it tries again until the process is to end. Then the node is nil.
func (m *Member) connect() (clusterNode, func() error, error) {
	pauses := backoff.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second}
	for {
		node, closing, err := m.openNode(m.ending)
		if err == nil {
			return node, closing, nil
		}
		if m.ending.Err() != nil {
			return nil, nil, nil
		}
		if _, wrong := errors.AsType[*OptionError](err); wrong || errors.Is(err, store.ErrInUse) {
			return nil, nil, err
		}
		m.log.Warn("this node can't reach the servers of the cluster; trying again", "error", err)
		m.set(func() { m.problem = "the servers of the cluster can't be reached: " + message.Clip(err.Error(), 300) })
		if !pauses.Wait(m.ending.Done()) {
			return nil, nil, nil
		}
	}
}

// own runs the kernel while this node owns it.
func (m *Member) own(ctx context.Context, s store.Store) error {
	once := &closedOnce{Store: s}
	o := m.opts
	o.doors, o.member = newDoors(m.lock, m.tcp), m
	o.Fenced, o.Depot = true, m.depot
	o.OpenStore = func(string) (store.Store, error) { return once, nil }
	d, err := Open(&o)
	if err != nil {
		o.doors.close()
		return errors.Join(err, once.Close())
	}
	m.set(func() { m.daemon, m.doors = d, o.doors })
	m.log.Info("this node owns the kernel", "node", m.name)
	err = d.Serve(ctx)
	m.set(func() { m.daemon, m.doors = nil, nil })
	o.doors.close()
	err = errors.Join(err, d.Close(), once.Close())
	m.log.Info("this node doesn't own the kernel any more", "node", m.name)
	return err
}

// closedOnce is a store that may be closed more than once.
type closedOnce struct {
	store.Store
	once sync.Once
	err  error
}

func (c *closedOnce) Close() error {
	c.once.Do(func() { c.err = c.Store.Close() })
	return c.err
}

// Close frees the addresses. Serve must have returned.
func (m *Member) Close() (err error) {
	m.end(nil)
	if m.door != nil {
		err = ignoreClosed(m.door.Close())
	}
	if m.tcp != nil {
		err = errors.Join(err, ignoreClosed(m.tcp.Close()))
	}
	if m.lock != nil {
		err = errors.Join(err, m.lock.Close())
	}
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

var _ clusterNode = (*cluster.Node)(nil)
