package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/gobwas/ws"
)

// rpcServer is a server of JSON-RPC in a process of its own.
type rpcServer struct {
	cmd  *exec.Cmd
	addr string
	last []byte // is in the last frame that answers a call
	ping string // a call of Ping
	subs string // a subscription to a number of items
	item []byte // is in every item
}

func startRPC(which string) (*rpcServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &rpcServer{cmd: exec.Command(self, "-rpc", which)}
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.addr = strings.TrimSpace(line)
	payload := strings.Repeat("x", 100)
	switch which {
	case "kernos", "floor":
		s.last, s.item = []byte(`"type":"done"`), []byte(`"content_type":"bench.item"`)
		s.ping = `{"jsonrpc":"2.0","id":1,"method":"kernel_ping","params":[{"payload":"` + payload + `"}]}`
		s.subs = `{"jsonrpc":"2.0","id":1,"method":"bench_items","params":[{"count":%d}]}`
	case "geth":
		s.last, s.item = []byte(`"id":1`), []byte(`"method":"bench_subscription"`)
		s.ping = `{"jsonrpc":"2.0","id":1,"method":"bench_ping","params":[{"payload":"` + payload + `"}]}`
		s.subs = `{"jsonrpc":"2.0","id":1,"method":"bench_subscribe","params":["items",{"count":%d}]}`
	}
	return s, err
}

func (s *rpcServer) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// rpcConn is a client that does as little as it can, so that the server is what is measured.
type rpcConn struct {
	net.Conn
	in    *bufio.Reader
	frame []byte
}

func (s *rpcServer) dial() (*rpcConn, error) {
	conn, buffered, _, err := ws.Dial(context.Background(), "ws://"+s.addr)
	if err != nil {
		return nil, err
	}
	if buffered == nil {
		buffered = bufio.NewReaderSize(conn, 64<<10)
	}
	return &rpcConn{Conn: conn, in: buffered}, nil
}

// masked makes a frame of a call, which can be sent many times.
func masked(text string) []byte {
	return ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame([]byte(text))))
}

// next reads a frame.
func (c *rpcConn) next() ([]byte, error) {
	for {
		h, err := ws.ReadHeader(c.in)
		if err != nil {
			return nil, err
		}
		c.frame = slices.Grow(c.frame[:0], int(h.Length))[:h.Length]
		if _, err := io.ReadFull(c.in, c.frame); err != nil {
			return nil, err
		}
		if h.OpCode == ws.OpText {
			return c.frame, nil
		}
	}
}

// calls makes calls, inFlight of them at a time, and returns how many there were per second.
func (c *rpcConn) calls(s *rpcServer, inFlight int, during time.Duration) (int, error) {
	one := masked(s.ping)
	many := bytes.Repeat(one, inFlight)
	if _, err := c.Write(many); err != nil {
		return 0, err
	}
	done, ready := 0, 0
	for begin := time.Now(); ; {
		frame, err := c.next()
		if err != nil {
			return done, err
		}
		if !bytes.Contains(frame, s.last) {
			continue
		}
		done++
		if ready++; c.in.Buffered() == 0 || ready == inFlight { // as a program does that is woken
			if time.Since(begin) > during {
				return done, nil
			}
			if _, err := c.Write(many[:ready*len(one)]); err != nil {
				return done, err
			}
			ready = 0
		}
	}
}

// load measures calls a second over connections.
func (s *rpcServer) load(connections, inFlight int, during time.Duration) (float64, error) {
	conns := make([]*rpcConn, connections)
	for i := range conns {
		c, err := s.dial()
		if err != nil {
			return 0, err
		}
		defer func() { _ = c.Close() }()
		conns[i] = c
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	total := 0
	begin := time.Now()
	for _, c := range conns {
		wg.Go(func() {
			n, err := c.calls(s, inFlight, during)
			mu.Lock()
			defer mu.Unlock()
			if total += n; err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return float64(total) / time.Since(begin).Seconds(), failed
}

// items measures items of a subscription a second.
func (s *rpcServer) items(count int) (float64, error) {
	c, err := s.dial()
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	begin := time.Now()
	if _, err := c.Write(masked(fmt.Sprintf(s.subs, count))); err != nil {
		return 0, err
	}
	for seen := 0; seen < count; {
		frame, err := c.next()
		if err != nil {
			return 0, err
		}
		if bytes.Contains(frame, s.item) {
			seen++
		}
	}
	return float64(count) / time.Since(begin).Seconds(), nil
}

// rounds is how often both are measured in turn; the median counts.
const rounds = 5

// besideGeth measures JSON-RPC over WebSocket beside go-ethereum's package, in turn.
func besideGeth(out io.Writer, idle int) error {
	ours, err := startRPC("kernos")
	if err != nil {
		return err
	}
	defer ours.stop()
	theirs, err := startRPC("geth")
	if err != nil {
		return err
	}
	defer theirs.stop()
	bare, err := startRPC("floor")
	if err != nil {
		return err
	}
	defer bare.stop()
	fmt.Fprintf(out, "\nJSON-RPC over WebSocket, beside go-ethereum's rpc; a call of ours is three frames, of theirs one\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "a second, median of 5\tkernos\tgo-ethereum\t×\tno server at all\t×\t")
	const during = 700 * time.Millisecond
	for _, r := range []struct {
		name    string
		items   bool
		measure func(*rpcServer) (float64, error)
	}{
		{"calls, one after the other", false, func(s *rpcServer) (float64, error) { return s.load(1, 1, during) }},
		{"calls, 64 in flight", false, func(s *rpcServer) (float64, error) { return s.load(1, 64, during) }},
		{"calls, 100 connections", false, func(s *rpcServer) (float64, error) { return s.load(100, 1, during) }},
		{"calls, 100 connections, 64 in flight each", false, func(s *rpcServer) (float64, error) { return s.load(100, 64, during) }},
		{"items of a subscription", true, func(s *rpcServer) (float64, error) { return s.items(100_000) }},
	} {
		var mine, other, floor []float64
		for range rounds {
			a, err := r.measure(ours)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			b, err := r.measure(theirs)
			if err != nil {
				return fmt.Errorf("%s, theirs: %w", r.name, err)
			}
			mine, other = append(mine, a), append(other, b)
			if r.items {
				continue
			}
			if a, err = r.measure(bare); err != nil {
				return fmt.Errorf("%s, the floor: %w", r.name, err)
			}
			floor = append(floor, a)
		}
		slices.Sort(mine)
		slices.Sort(other)
		a, b := mine[rounds/2], other[rounds/2]
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\t", r.name, a, b, a/b)
		if r.items {
			fmt.Fprint(w, "\t\t\n")
			continue
		}
		slices.Sort(floor)
		fmt.Fprintf(w, "%.0f\t%.2f\t\n", floor[rounds/2], floor[rounds/2]/b)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := discovery(out); err != nil {
		return err
	}
	return idleConnections(out, idle)
}

// discovery measures how long a fresh server takes to describe all of its methods.
func discovery(out io.Writer) error {
	s, err := startRPC("kernos")
	if err != nil {
		return err
	}
	defer s.stop()
	for _, which := range []string{"the first time", "again"} {
		c, err := s.dial()
		if err != nil {
			return err
		}
		begin := time.Now()
		calls := masked(`{"jsonrpc":"2.0","id":1,"method":"service_schema","params":[]}`)
		for i := range 100 {
			calls = append(calls, masked(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"service_module_schema","params":["module%d"]}`, i))...)
		}
		if _, err := c.Write(calls); err != nil {
			return err
		}
		total := 0
		for done := 0; done < 101; {
			frame, err := c.next()
			if err != nil {
				return err
			}
			if total += len(frame); bytes.Contains(frame, s.last) {
				done++
			}
		}
		fmt.Fprintf(out, "discovery of 100 modules with 1,000 methods, %s: %.1f ms, %d KB\n", which, time.Since(begin).Seconds()*1000, total>>10)
		_ = c.Close()
	}
	return nil
}

// idleConnections measures what a connection costs that does nothing, of a fresh server.
func idleConnections(out io.Writer, n int) error {
	s, err := startRPC("kernos")
	if err != nil {
		return err
	}
	defer s.stop()
	before, err := resident(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	for range n {
		c, _, _, err := ws.Dial(context.Background(), "ws://"+s.addr)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
	}
	time.Sleep(2 * time.Second)
	after, err := resident(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d idle connections: %.1f KB each, by resident memory\n", n, (after-before)/float64(n)/1024)
	return nil
}
