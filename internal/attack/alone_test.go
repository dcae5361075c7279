package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/message"
)

// The variables that make a daemon of this test, in a process of its own: where its home is, and
// how many files it may have open.
const (
	aloneHome  = "KERNOS_ATTACK_HOME"
	aloneFiles = "KERNOS_ATTACK_FILES"
)

// setLimit sets a limit, whose type depends on the system.
func setLimit[T int64 | uint64](limit *T, n uint64) { *limit = T(n) }

// serveAlone serves a home until standard input ends, and prints where.
func serveAlone(home, files string) error {
	if n, err := strconv.ParseUint(files, 10, 64); err == nil {
		var limit syscall.Rlimit
		setLimit(&limit.Cur, n)
		setLimit(&limit.Max, n)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
	}
	d, err := daemon.Open(&daemon.Options{Home: home, Socket: &daemon.Socket{}, Web: &daemon.Web{Address: "127.0.0.1:0"}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println(strings.Join(d.URLs(), " "))
	return errors.Join(d.Serve(ctx), d.Close())
}

// alone starts a daemon in a process of its own with a limit of open files; 0 means as many
// as this one. It returns the process's id.
func alone(t *testing.T, files int) (w *world, pid int) {
	t.Helper()
	w = &world{t: t, home: t.TempDir(), client: &http.Client{Transport: new(http.Transport)}}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), aloneHome+"="+w.home)
	if files > 0 {
		c.Env = append(c.Env, fmt.Sprintf("%s=%d", aloneFiles, files))
	}
	c.Stderr = os.Stderr
	in, out := testkit.Piped(t, c)
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range strings.Fields(line) {
		if path, ok := strings.CutPrefix(url, "unix://"); ok {
			w.socket = path
		}
		if address, ok := strings.CutPrefix(url, "http://"); ok {
			w.address = address
		}
	}
	return w, c.Process.Pid
}

// ask sends one request to the socket, as the owner, and reads the reply into out.
func (w *world) ask(what message.Type, kind message.Kind, data string, out any) {
	w.t.Helper()
	o := w.overUnix([]request{{what, kind, data}})[0]
	if o.code != 0 {
		w.t.Fatalf("%s %s: %v", what, data, o)
	}
	if out != nil {
		if err := json.Unmarshal(o.data, out); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Half-open connections, more of them than the process may have files, don't keep the owner from
// being served, and no record is lost.
func TestHalfOpenConnectionsWithFewFiles(t *testing.T) {
	const files = 256
	w, _ := alone(t, files)
	for range 2 * files {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: ") // it may be closed already
	}
	const changes = 100
	for i := range changes {
		w.ask("Memory.Set", message.KindCommand, fmt.Sprintf(`{"key":"k%d","value":1}`, i), nil)
	}
	var found struct{ Messages []json.RawMessage }
	w.ask("Message.List", message.KindQuery, `{"type":"Memory.Set","kind":"reply","limit":500}`, &found)
	var stats struct{ Lost uint64 }
	w.ask("Message.Stats", message.KindQuery, `{}`, &stats)
	if len(found.Messages) != changes || stats.Lost != 0 {
		t.Errorf("%d of %d changes are recorded, and %d records are lost", len(found.Messages), changes, stats.Lost)
	}
}

// resident is the memory that a process has, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// Watches take the memory that the budget of their token says, and what the collector has not
// collected yet: as much again, and as much for what each of them reads in passing.
func TestAFloodOfWatchesInResidentMemory(t *testing.T) {
	const budget, each = 64 << 20, 1000
	w, pid := alone(t, 0)
	var made struct{ Token string }
	w.ask("Token.Create", message.KindCommand, `{"name":"flood"}`, &made)
	var sockets []*websocket.Conn
	for range times(2, 10) {
		c, _ := w.dial(made.Token)
		defer func() { _ = c.CloseNow() }()
		sockets = append(sockets, c)
	}
	// flood calls a method many times on every connection, and returns how many calls are refused.
	flood := func(method, params string) (refused int) {
		for _, c := range sockets {
			go func() {
				for i := range each {
					_ = c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":[%s]}`, i, method, params))
				}
				_ = c.Write(t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":"last","method":"kernel_ping","params":[{"payload":"the last"}]}`))
			}()
			for last := false; !last; {
				_, frame, err := c.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				text := string(frame)
				if strings.Contains(text, `"code":429`) {
					refused++
				}
				last = strings.Contains(text, "the last")
			}
		}
		return refused
	}
	flood("kernel_ping", `{"payload":1}`) // what so many calls take anyway, in the journal and the store
	before := resident(t, pid)
	refused := flood("message_watch", "{}")
	watches := each*len(sockets) - refused
	grown := resident(t, pid) - before
	t.Logf("%d watches, %d refused: %d MB, %d KB each", watches, refused, grown>>20, grown/int64(max(watches, 1))>>10)
	most := int64(3 * budget)
	if testkit.Race {
		most *= 4 // it keeps a shadow of everything
	}
	if refused == 0 || grown > most {
		t.Errorf("%d watches are refused, and %d MB are taken; the budget is %d MB", refused, grown>>20, budget>>20)
	}
}
