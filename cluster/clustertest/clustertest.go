// Package clustertest runs servers of NATS for tests: processes of their own, which a test can kill, pause and start
// again. A package that uses it has
//
//	func TestMain(m *testing.M) { clustertest.Main(m) }
//
// because the processes are the test program itself.
//
// # Goroutines
//
// One for each process waits for its end.
package clustertest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"kernos/internal/testkit"
)

// variable has the options of a process that is a server.
const variable = "KERNOS_TEST_NATS_SERVER"

// Main is the TestMain of a package: it is a server in the processes that are servers, and otherwise runs the tests,
// stops the servers that they share, and checks that no goroutine is left. It doesn't return.
func Main(m *testing.M) {
	serveIfChild()
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	for _, s := range shared.servers {
		s.owner.close()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Serve is the first line of a TestMain that does the rest itself. In a process that is a server, it doesn't return.
func Serve() { serveIfChild() }

// Servers are servers of NATS, with JetStream, on free ports of this machine. They sync each message to the disk.
type Servers struct {
	owner     *owner
	processes []*process
}

// An owner collects what has to be cleaned up, for servers that outlive a test.
type owner struct {
	testing.TB
	cleanups []func()
}

func (o *owner) Cleanup(f func()) { o.cleanups = append(o.cleanups, f) }

func (o *owner) close() {
	for i := len(o.cleanups) - 1; i >= 0; i-- {
		o.cleanups[i]()
	}
	o.cleanups = nil
}

var shared struct {
	sync.Mutex
	servers map[int]*Servers
}

// Shared returns servers that all tests of the package share, until [Main] stops them. Three servers take 5 to 10
// seconds until they have a leader.
func Shared(t testing.TB, count int) *Servers {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	s := shared.servers[count]
	if s == nil {
		s = start(t, count)
		if shared.servers == nil {
			shared.servers = make(map[int]*Servers)
		}
		shared.servers[count] = s
	}
	for i := range s.processes { // an earlier test may have killed it
		s.Restart(t, i)
	}
	return s
}

// Start starts servers, and stops them at the end of the test.
func Start(t testing.TB, count int) *Servers {
	t.Helper()
	s := start(t, count)
	t.Cleanup(s.owner.close)
	return s
}

func start(t testing.TB, count int) *Servers {
	t.Helper()
	dir, err := os.MkdirTemp("", "kernos-nats")
	if err != nil {
		t.Fatal(err)
	}
	s := &Servers{owner: &owner{TB: t}}
	s.owner.Cleanup(func() { _ = os.RemoveAll(dir) })
	var routes []string
	for range count {
		routes = append(routes, testkit.Address(s.owner))
	}
	for i := range count {
		p := &process{Name: fmt.Sprintf("s%d", i), Client: testkit.Address(s.owner), Dir: filepath.Join(dir, strconv.Itoa(i))}
		if count > 1 {
			p.Route, p.Routes = routes[i], routes
		}
		s.processes = append(s.processes, p)
		s.owner.Cleanup(p.kill)
		s.Restart(t, i)
	}
	return s
}

// URL returns the addresses of the servers, as clients want them.
func (s *Servers) URL() string {
	var urls []string
	for i := range s.processes {
		urls = append(urls, s.ServerURL(i))
	}
	return strings.Join(urls, ",")
}

// ServerURL returns the address of one server.
func (s *Servers) ServerURL(number int) string { return "nats://" + s.processes[number].Client }

// Connect opens a connection to the servers with these numbers, or to all of them if there are none, and closes it at
// the end of the test.
func (s *Servers) Connect(t testing.TB, numbers ...int) *nats.Conn {
	t.Helper()
	urls := s.URL()
	if len(numbers) > 0 {
		var some []string
		for _, n := range numbers {
			some = append(some, s.ServerURL(n))
		}
		urls = strings.Join(some, ",")
	}
	nc, err := nats.Connect(urls, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(time.Second)) // a server that is paused is found out
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Kill kills a server with SIGKILL, and returns when it is gone.
func (s *Servers) Kill(number int) { s.processes[number].kill() }

// Pause stops a server with SIGSTOP; [Servers.Resume] lets it continue.
func (s *Servers) Pause(number int) { s.processes[number].signal(syscall.SIGSTOP) }

// Resume continues a server that was paused.
func (s *Servers) Resume(number int) { s.processes[number].signal(syscall.SIGCONT) }

// Restart starts a server again that was killed, with what it has on disk, and returns when it takes connections. One
// that runs goes on.
func (s *Servers) Restart(t testing.TB, number int) {
	t.Helper()
	p := s.processes[number]
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the server takes connections", func() bool {
		c, err := net.DialTimeout("tcp", p.Client, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// A process is a server. Its exported fields are its options.
type process struct {
	Name, Client, Dir string
	Route             string
	Routes            []string

	mu    sync.Mutex
	c     *exec.Cmd
	ended chan struct{}
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.c != nil {
		return nil
	}
	options, err := json.Marshal(p)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), variable+"="+string(options))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe() // its end is the end of the process
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Wait(), in.Close()
	}()
	p.c, p.ended = c, ended
	return nil
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.c != nil {
		_ = p.c.Process.Signal(s)
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.c != nil {
		<-p.ended
	}
	p.c = nil
}

// serveIfChild is a server until standard input ends, in a process that is one.
func serveIfChild() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	var p process
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the server for a test:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (p *process) serve() error {
	o := &natsserver.Options{
		ServerName: p.Name, NoSigs: true, JetStream: true, StoreDir: p.Dir, SyncAlways: true,
		JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 16 << 30,
	}
	var err error
	if o.Host, o.Port, err = hostPort(p.Client); err != nil {
		return err
	}
	if p.Route != "" {
		o.Cluster.Name = "test"
		if o.Cluster.Host, o.Cluster.Port, err = hostPort(p.Route); err != nil {
			return err
		}
		for _, r := range p.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r})
		}
	}
	s, err := natsserver.NewServer(o)
	if err != nil {
		return err
	}
	if log := os.Getenv("KERNOS_TEST_NATS_LOG"); log != "" {
		o.LogFile, o.Logtime = filepath.Join(log, p.Name+".log"), true
		s.ConfigureLogger()
	}
	s.Start()
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

func hostPort(address string) (string, int, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.Atoi(port)
	return host, number, err
}
