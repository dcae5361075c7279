package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A daemon is kernos serve in a home of its own.
type daemon struct {
	cmd    *exec.Cmd
	dir    string
	socket string
	log    bytes.Buffer
}

// startDaemon starts kernos serve on a home directory and waits until it answers.
func startDaemon(binary, home string, flags ...string) (*daemon, error) {
	dir, err := os.MkdirTemp("", "kernos-run-*")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir}
	environment := append(os.Environ(), "KERNOS_HOME="+home, "XDG_RUNTIME_DIR="+dir)
	d.cmd = exec.Command(binary, append([]string{"serve"}, flags...)...)
	d.cmd.Env = environment
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		status := exec.Command(binary, "status", "--json")
		status.Env = environment
		out, err := status.Output()
		if err != nil {
			continue
		}
		var s struct{ Socket string }
		if err := json.Unmarshal(out, &s); err != nil {
			return nil, fmt.Errorf("kernos status --json: %w", err)
		}
		d.socket = s.Socket
		return d, nil
	}
	_ = d.stop()
	return nil, fmt.Errorf("kernos serve does not answer: %s", d.log.String())
}

func (d *daemon) stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	err := d.cmd.Wait()
	_ = os.RemoveAll(d.dir)
	return err
}

// resident is how many bytes of a process are in memory.
func resident(pid int) (float64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kb * 1024, err
}

// latency sends a line again and again over a connection, each time when the answer to
// the one before is there, and returns the median.
func latency(conn net.Conn, line []byte, count int) (time.Duration, error) {
	return latencyAt(conn, line, count, 0)
}

// latencyAt is latency with pauses.
func latencyAt(conn net.Conn, line []byte, count int, pause time.Duration) (time.Duration, error) {
	r := bufio.NewReaderSize(conn, 64<<10)
	took := make([]time.Duration, count)
	for i := range count {
		begin := time.Now()
		if _, err := conn.Write(line); err != nil {
			return 0, err
		}
		for {
			answer, err := r.ReadSlice('\n')
			if err != nil {
				return 0, err
			}
			if bytes.HasPrefix(answer, []byte(`{"kind":"error"`)) {
				return 0, fmt.Errorf("no reply: %s", answer)
			}
			if !bytes.HasPrefix(answer, []byte(`{"kind":"event"`)) {
				break
			}
		}
		took[i] = time.Since(begin)
		if pause > 0 {
			time.Sleep(pause)
		}
	}
	slices.Sort(took)
	return took[count/2], nil
}

// stream sends lines over a connection, as fast as it takes them, while it reads as many
// answers.
func stream(conn net.Conn, text []byte, count int) error {
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(text)
		sent <- err
	}()
	buf := make([]byte, 256<<10)
	for got := 0; got < count; {
		n, err := conn.Read(buf)
		got += bytes.Count(buf[:n], []byte("\n"))
		if err != nil {
			return err
		}
	}
	return <-sent
}

// streams runs some connections at once and returns the messages a second of all of them.
func streams(socket string, connections, each int) (float64, error) {
	text := bytes.Join(append(smallLines(each), nil), []byte("\n"))
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	begin := time.Now()
	for range connections {
		all.Go(func() {
			conn, err := net.Dial("unix", socket)
			if err == nil {
				err = stream(conn, text, each)
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
	return float64(connections*each) / time.Since(begin).Seconds(), nil
}

// echo answers every line with itself, over a unix socket, and knows nothing else. It is
// what this program does in a process of its own.
func echo(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			buf := make([]byte, 64<<10)
			for {
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				if _, err := conn.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}

// startFloor starts the echo or the relay in a process of its own, and returns its socket.
func startFloor(name string) (path string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "kernos-floor-*")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, name)
	cmd := exec.Command(os.Args[0], "-"+name, path)
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	for range 500 {
		if _, err = os.Stat(path); err == nil {
			return path, stop, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	return "", nil, err
}

// dialEcho starts the echo and connects to it.
func dialEcho() (conn net.Conn, stop func(), err error) {
	path, stop, err := startFloor("echo")
	if err != nil {
		return nil, nil, err
	}
	if conn, err = net.Dial("unix", path); err != nil {
		stop()
	}
	return conn, stop, err
}

// dialRelay starts the relay and its handler, and connects to it.
func dialRelay() (conn net.Conn, stop func(), err error) {
	path, stopRelay, err := startFloor("relay")
	if err != nil {
		return nil, nil, err
	}
	stopHandler, err := startHandler(path)
	if err != nil {
		stopRelay()
		return nil, nil, err
	}
	stop = func() {
		stopHandler()
		stopRelay()
	}
	if conn, err = net.Dial("unix", path); err != nil {
		stop()
	}
	return conn, stop, err
}

// handle registers Bench.Echo for a connection, which is what Echo is, reports that it is registered, and answers it
// until the connection ends. It is what this program does in a process of its own.
func handle(socket string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	fmt.Fprintf(conn, `{"kind":"command","type":"Syscall.Register","data":{"name":"Bench.Echo","kind":"command","description":"Return a text.","inputSchema":{"type":"object","properties":{"message":{"type":"string","description":"Any text."}},"required":["message"]},"outputSchema":{"type":"object","properties":{"echo":{"type":"string","description":"The text."}},"required":["echo"]},"handler":"connection"},"metadata":{"id":"register","timestamp":1735000000000}}`+"\n")
	r := bufio.NewReaderSize(conn, 64<<10)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte(`{"kind":"reply"`)) {
		return fmt.Errorf("can't register: %s", line)
	}
	fmt.Println("registered")
	// What it costs to read JSON is another program's business: it looks for what it needs.
	var answer []byte
	for n := 0; ; n++ {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		_, rest, _ := bytes.Cut(line, []byte(`"data":{"message":`))
		text, rest, _ := bytes.Cut(rest, []byte(`},"metadata":{"id":"`))
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		answer = append(append(answer[:0], `{"kind":"reply","type":"Bench.Echo","data":{"echo":`...), text...)
		answer = strconv.AppendInt(append(answer, `},"metadata":{"id":"answer-`...), int64(n), 10)
		answer = append(append(answer, `","timestamp":1735000000000,"causation":"`...), id...)
		answer = append(answer, "\"}}\n"...)
		if _, err := conn.Write(answer); err != nil {
			return err
		}
	}
}

// relay passes every line of its clients on to the first connection that it gets, which is a
// handler's, and what that answers back to the last client. It knows nothing else, and is what
// this program does in a process of its own.
func relay(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	handler, err := l.Accept()
	if err != nil {
		return err
	}
	if _, err := bufio.NewReader(handler).ReadSlice('\n'); err != nil {
		return err
	}
	if _, err := io.WriteString(handler, `{"kind":"reply"}`+"\n"); err != nil {
		return err
	}
	var client atomic.Pointer[net.Conn]
	pass := func(from net.Conn, to func() net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			if _, err := to().Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go pass(handler, func() net.Conn { return *client.Load() })
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		client.Store(&conn)
		go pass(conn, func() net.Conn { return handler })
	}
}

// startHandler starts a handler in a process of its own and waits until it serves.
func startHandler(socket string) (stop func(), err error) {
	cmd := exec.Command(os.Args[0], "-handle", socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		stop()
		return nil, fmt.Errorf("the handler does not serve: %w", err)
	}
	return stop, nil
}

// besideEcho measures the daemon over its socket.
func besideEcho(out io.Writer, binary string, count int) error {
	home, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(home) }()
	d, err := startDaemon(binary, home)
	if err != nil {
		return err
	}
	defer func() { _ = d.stop() }()
	bare, stopEcho, err := dialEcho()
	if err != nil {
		return err
	}
	defer stopEcho()
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(out, "\nThe daemon, which records everything, over its socket\n")

	line := append(smallLines(1)[0], '\n')
	stopHandler, err := startHandler(d.socket)
	if err != nil {
		return err
	}
	passed, stopRelay, err := dialRelay()
	if err != nil {
		stopHandler()
		return err
	}
	echo := []byte(`{"kind":"command","type":"Echo","data":{"message":"hello, how are you?"},"metadata":{"id":"echo","timestamp":1735000000000}}` + "\n")
	served := bytes.Replace(echo, []byte(`"Echo"`), []byte(`"Bench.Echo"`), 1)
	// In turns, so that all have the same neighbours.
	var floors, pings, direct, through, relayed []time.Duration
	for range 5 {
		for _, m := range []struct {
			conn net.Conn
			line []byte
			to   *[]time.Duration
		}{{bare, line, &floors}, {conn, line, &pings}, {conn, echo, &direct}, {passed, served, &relayed}, {conn, served, &through}} {
			median, err := latency(m.conn, m.line, 4000)
			if err != nil {
				return err
			}
			*m.to = append(*m.to, median)
		}
	}
	stopHandler()
	stopRelay()
	for _, all := range [][]time.Duration{floors, pings, direct, relayed, through} {
		slices.Sort(all)
	}
	floor, ping, itself, bareRelay, handled := floors[2], pings[2], direct[2], relayed[2], through[2]
	fmt.Fprintf(out, "  floor: an echo in Go, one at a time, median     %v\n", floor)
	fmt.Fprintf(out, "  Ping, one at a time, median                     %v   %.2f × the floor\n", ping, float64(ping)/float64(floor))
	fmt.Fprintf(out, "  floor: an echo behind a relay in Go             %v   %.2f × the echo\n", bareRelay, float64(bareRelay)/float64(floor))
	fmt.Fprintf(out, "  Echo, by the kernel itself                      %v\n", itself)
	fmt.Fprintf(out, "  the same by a handler on a connection           %v   %.2f × the floor of a relay, %.2f × Echo, %.2f × Ping\n",
		handled, float64(handled)/float64(bareRelay), float64(handled)/float64(itself), float64(handled)/float64(ping))
	one, err := streams(d.socket, 1, count)
	if err != nil {
		return err
	}
	many, err := streams(d.socket, 64, count/64)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  Ping, pipelined, one connection                 %8.0f messages/s\n", one)
	fmt.Fprintf(out, "  Ping, pipelined, 64 connections                 %8.0f messages/s\n", many)
	if err := neighbours(out, d.socket, line); err != nil {
		return err
	}
	if err := flooded(out, binary, line); err != nil {
		return err
	}
	return idle(out, d)
}

// idle measures what idle connections cost.
func idle(out io.Writer, d *daemon) error {
	const connections = 9000 // fits into the open files that this process may have
	before, err := resident(d.cmd.Process.Pid)
	if err != nil {
		return err
	}
	line := append(smallLines(1)[0], '\n')
	buf := make([]byte, 4096)
	for range connections {
		conn, err := net.Dial("unix", d.socket)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(line); err != nil {
			return err
		}
		if _, err := conn.Read(buf); err != nil {
			return err
		}
	}
	after, err := resident(d.cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %d idle connections, each has pinged once     %.1f KB each\n", connections, (after-before)/connections/1024)
	return nil
}

// neighbours measures what a connection notices of others that misbehave.
func neighbours(out io.Writer, socket string, line []byte) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, n := range []struct {
		name    string
		peers   int
		disturb func(net.Conn, <-chan struct{})
	}{
		{"100 that are silent", 100, func(_ net.Conn, stop <-chan struct{}) { <-stop }},
		{"100 that have sent half a line", 100, func(c net.Conn, stop <-chan struct{}) {
			_, _ = c.Write(line[:len(line)/2])
			<-stop
		}},
		{"100 that never read", 100, func(c net.Conn, stop <-chan struct{}) {
			_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			_, _ = c.Write(bytes.Repeat(line, 20_000))
			<-stop
		}},
		{"10 that come and go", 10, func(_ net.Conn, stop <-chan struct{}) {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					if c, err := net.Dial("unix", socket); err == nil {
						_, _ = c.Write(line)
						_ = c.Close()
					}
				}
			}
		}},
	} {
		// In turns, and the best of each: what else the machine does makes either look bad.
		var alone, beside time.Duration
		for round := range 9 {
			without, err := besides(conn, line, socket, 0, nil)
			if err != nil {
				return err
			}
			with, err := besides(conn, line, socket, n.peers, n.disturb)
			if err != nil {
				return err
			}
			if round == 0 {
				alone, beside = without, with
			}
			alone, beside = min(alone, without), min(beside, with)
		}
		fmt.Fprintf(out, "  Ping beside %-35s %v   %.2f × alone\n", n.name, beside, float64(beside)/float64(alone))
	}
	return nil
}

// flooded measures what a connection that pings now and then notices of others that flood:
// ten on a daemon with a frame rate, and one on a daemon without, which has a core then. Who
// floods wants a core too, so for the latter it is also measured what is left of the machine
// when the same is done to an echo.
func flooded(out io.Writer, binary string, line []byte) error {
	const rate = 2000
	flood := func(c net.Conn, stop <-chan struct{}) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		go func() {
			<-stop
			_ = c.Close()
		}()
		for text := bytes.Repeat(line, 1000); ; {
			if _, err := c.Write(text); err != nil {
				return
			}
		}
	}
	paced, err := pingBeside(binary, line, flood, 10, false, "--frame-rate", strconv.Itoa(rate))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  Ping now and then beside %-22s %v   %.2f × alone\n", fmt.Sprintf("10 that flood at %d/s", rate), paced.beside, paced.ratio())
	free, err := pingBeside(binary, line, flood, 1, false)
	if err != nil {
		return err
	}
	elsewhere, err := pingBeside(binary, line, flood, 1, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  Ping now and then beside %-22s %v   %.2f × alone; %.2f × if it floods an echo instead\n", "one that floods", free.beside, free.ratio(), elsewhere.ratio())
	return nil
}

// neighbour is a latency alone and beside others.
type neighbour struct{ alone, beside time.Duration }

func (n neighbour) ratio() float64 { return float64(n.beside) / float64(n.alone) }

// pingBeside measures a Ping now and then on a daemon, alone and beside some who disturb it, or
// an echo in another process instead: in turns, and the best of each.
func pingBeside(binary string, line []byte, disturb func(net.Conn, <-chan struct{}), peers int, elsewhere bool, flags ...string) (n neighbour, err error) {
	home, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return n, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	d, err := startDaemon(binary, home, append(flags, "--no-http")...)
	if err != nil {
		return n, err
	}
	defer func() { _ = d.stop() }()
	disturbed := d.socket
	if elsewhere {
		path, stop, err := startFloor("echo")
		if err != nil {
			return n, err
		}
		defer stop()
		disturbed = path
	}
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		return n, err
	}
	defer func() { _ = conn.Close() }()
	for round := range 9 {
		without, err := besidesAt(conn, line, disturbed, 0, disturb, 800, time.Millisecond)
		if err != nil {
			return n, err
		}
		with, err := besidesAt(conn, line, disturbed, peers, disturb, 800, time.Millisecond)
		if err != nil {
			return n, err
		}
		if round == 0 {
			n = neighbour{without, with}
		}
		n = neighbour{min(n.alone, without), min(n.beside, with)}
	}
	return n, nil
}

// besides measures the latency of a connection while others do what they do.
func besides(conn net.Conn, line []byte, socket string, peers int, disturb func(net.Conn, <-chan struct{})) (time.Duration, error) {
	return besidesAt(conn, line, socket, peers, disturb, 4000, 0)
}

// besidesAt is besides for a connection that pauses between its calls.
func besidesAt(conn net.Conn, line []byte, socket string, peers int, disturb func(net.Conn, <-chan struct{}), count int, pause time.Duration) (time.Duration, error) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	for range peers {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return 0, err
		}
		all.Go(func() {
			disturb(c, stop)
			_ = c.Close()
		})
	}
	time.Sleep(500 * time.Millisecond) // until they have done their worst
	return latencyAt(conn, line, count, pause)
}
