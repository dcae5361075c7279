package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

const (
	mcpConnections = 16
	mcpRounds      = 5
	mcpTime        = 1500 * time.Millisecond
	mcpTools       = 1000
)

// mcps measures the Model Context Protocol beside the official SDK and mark3labs/mcp-go: an echo over
// stateless HTTP and over stdio, in turns; and what lists of many tools cost.
func mcps(out io.Writer, binary string) error {
	dir, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	d, err := startDaemon(binary, dir, "--addr", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = d.stop() }()
	token, err := d.run(binary, dir, "token")
	if err != nil {
		return err
	}
	address, err := d.httpAddress(binary, dir)
	if err != nil {
		return err
	}
	servers := []*mcpServer{{name: "Kernos", pid: d.cmd.Process.Pid, address: address, token: strings.TrimSpace(token), stdio: exec.Command(binary, "mcp"), env: d.environment(dir)}}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range []string{"go-sdk", "mark3labs", "floor"} {
		s, stop, err := startMCPPeer(self, name)
		if err != nil {
			return err
		}
		defer stop()
		servers = append(servers, s)
	}
	if err := besideMCP(out, servers); err != nil {
		return err
	}
	return manyTools(out, d, servers[0])
}

// besideMCP measures the echo of all servers, in turns.
func besideMCP(out io.Writer, servers []*mcpServer) error {
	fmt.Fprintf(out, "\nModel Context Protocol: tools/call of an echo (calls per second, by the clock; median of %d)\n", mcpRounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := "\t"
	for _, s := range servers {
		header += s.name + "\t"
	}
	fmt.Fprintln(w, header+"× go-sdk\t× mark3labs\t")
	for _, way := range []struct {
		name string
		rate func(*mcpServer) (mcpRate, error)
	}{
		{fmt.Sprintf("stateless HTTP, %d connections, a core for the server", mcpConnections), (*mcpServer).alone},
		{fmt.Sprintf("stateless HTTP, %d connections", mcpConnections), func(s *mcpServer) (mcpRate, error) { return s.overHTTP(mcpConnections) }},
		{"stateless HTTP, one connection", func(s *mcpServer) (mcpRate, error) { return s.overHTTP(1) }},
		{"stdio, one at a time", func(s *mcpServer) (mcpRate, error) { return s.overStdio(1) }},
		{"stdio, 16 in flight", func(s *mcpServer) (mcpRate, error) { return s.overStdio(16) }},
	} {
		rates := make([][]mcpRate, len(servers))
		for range mcpRounds {
			for i, s := range servers {
				if s.name == "floor" && strings.HasPrefix(way.name, "stdio") {
					rates[i] = append(rates[i], mcpRate{})
					continue
				}
				r, err := way.rate(s)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, way.name, err)
				}
				rates[i] = append(rates[i], r)
			}
		}
		for _, column := range []struct {
			name string
			of   func(mcpRate) float64
		}{
			{way.name, func(r mcpRate) float64 { return r.perSecond }},
			{"CPU time of the server, µs per call", func(r mcpRate) float64 { return float64(r.cpu) / 1e3 }},
		} {
			row := column.name + "\t"
			var medians []float64
			for _, all := range rates {
				slices.SortFunc(all, func(a, b mcpRate) int { return cmp.Compare(column.of(a), column.of(b)) })
				medians = append(medians, column.of(all[len(all)/2]))
				row += fmt.Sprintf("%.0f\t", medians[len(medians)-1])
			}
			if column.name == way.name {
				fmt.Fprintf(w, "%s%.1f\t%.1f\t\n", row, medians[0]/medians[1], medians[0]/medians[2])
			} else {
				fmt.Fprintf(w, "%s1/%.1f\t1/%.1f\t\n", row, medians[1]/medians[0], medians[2]/medians[0])
			}
		}
	}
	return w.Flush()
}

// An mcpRate is how many calls per second were answered, and what one of them cost the server.
type mcpRate struct {
	perSecond float64
	cpu       time.Duration
}

// An mcpServer is one that is measured: at an address, and as a program.
type mcpServer struct {
	name, address, token string
	pid                  int       // of the process that answers HTTP
	stdio                *exec.Cmd // a new process is started with its path and arguments
	env                  []string
}

func startMCPPeer(self, name string) (*mcpServer, func(), error) {
	cmd := exec.Command(self, "-mcp", name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, nil, err
	}
	return &mcpServer{name: name, pid: cmd.Process.Pid, address: strings.TrimSpace(line), stdio: exec.Command(self, "-mcp", name, "-stdio")}, stop, nil
}

const mcpMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// request is an HTTP request of the stateless era, which can be sent many times.
func (s *mcpServer) request(method, name, params string) []byte {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, mcpMeta)
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n", s.address, method)
	if name != "" {
		fmt.Fprintf(&b, "Mcp-Name: %s\r\n", name)
	}
	if s.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", s.token)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return b.Bytes()
}

var echoCall = `"name":"Echo","arguments":{"message":"` + strings.Repeat("x", 100) + `"},`

// overHTTP measures the echoes that some connections get, one at a time each. Two threads have all of them, so that the
// client, which shares the processor with the server, takes as little of it as it can: each goes round its connections, reads
// the answer that has come, and asks again.
func (s *mcpServer) overHTTP(connections int) (mcpRate, error) {
	one := s.request("tools/call", "Echo", echoCall)
	threads := min(connections, 2)
	return inParallel(threads, s.pid, func() (done int, err error) {
		conns := make([]*httpConn, connections/threads)
		for i := range conns {
			if conns[i], err = dialHTTP(s.address); err != nil {
				return 0, err
			}
			defer func() { _ = conns[i].Close() }()
			if _, err := conns[i].Write(one); err != nil {
				return 0, err
			}
		}
		for begin := time.Now(); time.Since(begin) < mcpTime; {
			for _, c := range conns {
				body, err := c.answer()
				if err != nil {
					return done, err
				}
				if !bytes.Contains(body, []byte("xxxxxxxxxx")) {
					return done, fmt.Errorf("it is answered with %s", body)
				}
				if _, err := c.Write(one); err != nil {
					return done, err
				}
				done++
			}
		}
		return done, nil
	})
}

// alone is overHTTP with one core for the server, and another for the client.
func (s *mcpServer) alone() (mcpRate, error) {
	undo, err := apart(s.pid)
	if err != nil {
		return mcpRate{}, err
	}
	defer undo()
	return s.overHTTP(mcpConnections)
}

// inParallel runs work in goroutines, and returns how much of it was done per second, and what that cost
// the process.
func inParallel(many, pid int, work func() (int, error)) (mcpRate, error) {
	var all sync.WaitGroup
	counts, errs := make([]int, many), make([]error, many)
	before, err := processTime(pid)
	if err != nil {
		return mcpRate{}, err
	}
	begin := time.Now()
	for i := range many {
		all.Go(func() { counts[i], errs[i] = work() })
	}
	all.Wait()
	took := time.Since(begin)
	after, err := processTime(pid)
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return mcpRate{float64(sum) / took.Seconds(), (after - before) / time.Duration(max(sum, 1))}, errors.Join(append(errs, err)...)
}

// httpConn is a client that does as little as it can, so that the server is what is measured: it blocks its thread.
type httpConn struct {
	*os.File
	in   *bufio.Reader
	body []byte
}

func dialHTTP(address string) (*httpConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(int(file.Fd()), false); err != nil {
		return nil, err
	}
	return &httpConn{File: file, in: bufio.NewReaderSize(file, 64<<10)}, nil
}

// ask sends a request, and returns the body of the answer, of which the next one takes the place.
func (c *httpConn) ask(request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	return c.answer()
}

// answer returns the body of the next answer, of which the one after it takes the place.
func (c *httpConn) answer() ([]byte, error) {
	length, chunked := 0, false
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return nil, err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
	c.body = c.body[:0]
	if !chunked {
		return c.read(length)
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return nil, err
		}
		if _, err := c.read(int(size)); err != nil {
			return nil, err
		}
		if _, err := c.in.Discard(2); err != nil {
			return nil, err
		}
		if size == 0 {
			return c.body, nil
		}
	}
}

func (c *httpConn) read(n int) ([]byte, error) {
	at := len(c.body)
	c.body = slices.Grow(c.body, n)[:at+n]
	_, err := io.ReadFull(c.in, c.body[at:])
	return c.body, err
}

// overStdio measures the echoes that a process answers over its standard input and output. The time of
// a daemon behind it counts.
func (s *mcpServer) overStdio(inFlight int) (r mcpRate, err error) {
	cmd := exec.Command(s.stdio.Path, s.stdio.Args[1:]...)
	cmd.Env, cmd.Stderr = s.env, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return r, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	lines := bufio.NewReaderSize(out, 64<<10)
	talk := func(text string) ([]byte, error) {
		if _, err := io.WriteString(in, text+"\n"); err != nil {
			return nil, err
		}
		return lines.ReadSlice('\n')
	}
	if _, err := talk(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`); err != nil {
		return r, err
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + strings.TrimSuffix(echoCall, ",") + `}}` + "\n"
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+strings.Repeat(call, inFlight)); err != nil {
		return r, err
	}
	one := []byte(call)
	done := 0
	cpu := func() (sum time.Duration) {
		for _, pid := range []int{cmd.Process.Pid, s.pid} {
			t, err := processTime(pid)
			if err == nil {
				sum += t
			}
		}
		return sum
	}
	before, begin := cpu(), time.Now()
	for ; time.Since(begin) < mcpTime; done++ {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return r, err
		}
		if !bytes.Contains(line, []byte("xxxxxxxxxx")) {
			return r, fmt.Errorf("it is answered with %s", line)
		}
		if _, err := in.Write(one); err != nil {
			return r, err
		}
	}
	return mcpRate{float64(done) / time.Since(begin).Seconds(), (cpu() - before) / time.Duration(max(done, 1))}, nil
}

// manyTools measures tools/list with many tools, the first time and later, and how soon a client
// hears of a new one.
func manyTools(out io.Writer, d *daemon, s *mcpServer) error {
	serve := func() (func(int) error, func() error, error) { // on a connection of its own, which serves 1,000 at most
		conn, err := net.Dial("unix", d.socket)
		if err != nil {
			return nil, nil, err
		}
		replies := bufio.NewReader(conn)
		return func(i int) error {
			_, err := fmt.Fprintf(conn, `{"kind":"command","type":"Syscall.Register","data":{"name":"Bench%d.Thing%d","kind":"query","description":"One of a thousand.","handler":"connection","timeout":30000,"inputSchema":{"type":"object","properties":{"key":{"type":"string","description":"Where it is."},"limit":{"type":"integer","minimum":1,"description":"How much of it."},"tags":{"type":"array","items":{"type":"string"},"description":"Words to find it by."}},"required":["key"]},"outputSchema":{"type":"object"}},"metadata":{"id":"tool-%d","timestamp":1735000000000}}`+"\n", i/10, i%10, i)
			return errors.Join(err, readReply(replies))
		}, conn.Close, nil
	}
	register, leave, err := serve()
	if err != nil {
		return err
	}
	defer func() { _ = leave() }()
	for i := range mcpTools {
		if err := register(i); err != nil {
			return err
		}
	}
	c, err := dialHTTP(s.address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	cursor := regexp.MustCompile(`"nextCursor":("[^"]*")`)
	var took []time.Duration
	var cpu time.Duration // of the first
	size := 0
	before, err := processTime(s.pid)
	if err != nil {
		return err
	}
	for range 21 {
		begin, params, n := time.Now(), "", 0
		size = 0
		for {
			body, err := c.ask(ofAllTools(s.request("tools/list", "", params)))
			if err != nil {
				return err
			}
			n, size = n+bytes.Count(body, []byte(`"title":"Bench`)), size+len(body)
			more := cursor.FindSubmatch(body)
			if more == nil {
				break
			}
			params = `"cursor":` + string(more[1]) + ","
		}
		if took = append(took, time.Since(begin)); len(took) == 1 {
			after, err := processTime(s.pid)
			if err != nil {
				return err
			}
			cpu = after - before
		}
		if n != mcpTools {
			return fmt.Errorf("tools/list has %d of %d tools", n, mcpTools)
		}
	}
	first := took[0]
	slices.Sort(took)
	fmt.Fprintf(out, "  tools/list with %d tools, %d KB: the first time %v (%v of CPU time), then %v\n", mcpTools, size>>10, first.Round(10*time.Microsecond), cpu.Round(time.Millisecond), took[len(took)/2].Round(10*time.Microsecond))

	listener, err := dialHTTP(s.address)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	if _, err := listener.Write(ofAllTools(s.request("subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`))); err != nil {
		return err
	}
	if err := listener.until("notifications/subscriptions/acknowledged"); err != nil {
		return err
	}
	another, leave, err := serve()
	if err != nil {
		return err
	}
	defer func() { _ = leave() }()
	var heard []time.Duration
	for i := range 21 {
		begin := time.Now()
		if err := another(mcpTools + i); err != nil {
			return err
		}
		if err := listener.until("notifications/tools/list_changed"); err != nil {
			return err
		}
		heard = append(heard, time.Since(begin))
		time.Sleep(100 * time.Millisecond)
	}
	slices.Sort(heard)
	fmt.Fprintf(out, "  list_changed after a registration: median %v, worst %v of %d\n", heard[len(heard)/2].Round(10*time.Microsecond), heard[len(heard)-1].Round(10*time.Microsecond), len(heard))
	return nil
}

// ofAllTools makes a request one of a client that is shown all tools.
func ofAllTools(request []byte) []byte {
	return bytes.Replace(request, []byte("POST /mcp "), []byte("POST /mcp?tools=all "), 1)
}

// until reads lines of a stream until one has the text.
func (c *httpConn) until(text string) error {
	for {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%w before %s", err, text)
		}
		if bytes.Contains(line, []byte(text)) {
			return nil
		}
	}
}

// environment is that of programs which use the daemon of a home.
func (d *daemon) environment(home string) []string {
	return append(os.Environ(), "KERNOS_HOME="+home, "XDG_RUNTIME_DIR="+d.dir)
}

// run runs a command of kernos, and returns what it prints.
func (d *daemon) run(binary, home string, args ...string) (string, error) {
	c := exec.Command(binary, args...)
	c.Env = d.environment(home)
	text, err := c.Output()
	return string(text), err
}

// httpAddress is the TCP address of the daemon.
func (d *daemon) httpAddress(binary, home string) (string, error) {
	text, err := d.run(binary, home, "status", "--json")
	if err != nil {
		return "", err
	}
	var s struct{ Listening []string }
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return "", err
	}
	for _, url := range s.Listening {
		if address, ok := strings.CutPrefix(url, "http://"); ok {
			return address, nil
		}
	}
	return "", fmt.Errorf("%s listens at %v only", filepath.Base(binary), s.Listening)
}
