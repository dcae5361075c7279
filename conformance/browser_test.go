//go:build linux && amd64

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kernos/internal/testkit"
	testbrowser "kernos/internal/testkit/browser"
	"kernos/internal/testkit/tool"
)

// told is what a page was told, by the name of what it has tried.
type told map[string]string

// TestBrowser lets web pages reach for a kernel in every way that a page has (npm/page.js), in
// a browser of others, and use the library for TypeScript there (npm/sdk.js). The
// browser is made for Linux on amd64 only.
// What a page was told comes from the page; what the kernel answered, from its own count of
// refusals; what has happened, from its memory.
func TestBrowser(t *testing.T) {
	tool.Need(t, "browser")
	binary := testkit.Program(t, "kernos/cmd/kernos")
	pages := httptest.NewServer(servePages())
	t.Cleanup(pages.Close)
	port := pages.URL[strings.LastIndexByte(pages.URL, ':'):]
	b := startBrowser(t, "evil.test", "app.test")

	// A page that is not let in can't even read why.
	nothing := told{
		"socket-token": "closed 1006", "socket-plain": "closed 1006",
		"call-token": "TypeError", "call-plain": "TypeError", "messages-plain": "TypeError", "sandboxed": "TypeError",
		"messages-opaque": "opaque", "health": "opaque",
		"beacon": "true", "form": "unreadable", "events": "error", "image": "error", "script": "error",
	}
	but := func(more told) told {
		all := maps.Clone(nothing)
		maps.Copy(all, more)
		return all
	}
	for _, page := range []struct {
		name    string
		origin  string
		flags   []string
		told    told
		refused map[string]int // by reason
		stored  []string
	}{
		{"of another site", "http://evil.test" + port, nil, nothing, map[string]int{"origin": len(nothing)}, nil},
		{"of another port", "http://127.0.0.1" + port, nil, nothing, map[string]int{"origin": len(nothing)}, nil},
		{"of another site without a token", "http://evil.test" + port, []string{"--no-token"}, nothing, map[string]int{"origin": len(nothing)}, nil},

		// Where the same page is allowed, it gets through: nothing else kept it out above.
		{"that is allowed", "http://app.test" + port, []string{"--allow-origin", "http://app.test" + port}, but(told{
			"socket-token": "kernos: data done",
			"call-token":   "fine", "call-plain": "401 token_required", "messages-plain": "401 token_required",
		}), map[string]int{
			"token":  7, // socket-plain, call-plain, messages-plain, messages-opaque, beacon, form, events
			"origin": 4, // sandboxed has none; health, image and script are embedded, and say none
		}, []string{"call-token", "socket-token"}},
		{"that is allowed without a token", "http://app.test" + port, []string{"--no-token", "--allow-origin", "http://app.test" + port}, but(told{
			"socket-token": "kernos: data done", "socket-plain": ": data done",
			"call-token": "fine", "call-plain": "fine", "messages-plain": "fine",
		}), map[string]int{
			"origin": 4,
		}, []string{"beacon", "call-plain", "call-token", "form", "messages-opaque", "messages-plain", "socket-plain", "socket-token"}},
	} {
		t.Run("page "+page.name, func(t *testing.T) {
			k := startKernel(t, binary, "127.0.0.1:0", page.flags...)
			before := k.counts()
			got := b.visit(t, page.origin, url.Values{"kernel": {k.url}}, nil)
			if !maps.Equal(got, page.told) {
				t.Errorf("the page was told\n%v, want\n%v", got, page.told)
			}
			k.check(before, page.refused, page.stored)
		})
	}

	// A page that isn't served with TLS has fewer functions of the browser than one of this machine.
	for name, origin := range map[string]string{"of another machine": "http://app.test" + port, "of this machine": "http://127.0.0.1" + port} {
		t.Run("the library in a page "+name, func(t *testing.T) {
			k := startKernel(t, binary, "127.0.0.1:0", "--allow-origin", origin)
			want := told{
				"set": `{"success":true}`, "get": `["grün",1]`, "ping": `{"payload":1}`, "files": "some",
				"missing": "KernosError 404", "unknown": "KernosError 404", "large": "KernosError 413",
				"reference": "y,x", "handler": "KernosError 501", "closed": "KernosError 502", "another token": "KernosError 502",
				"over http": "KernosError 501", "over a process": "KernosError 501", "over a socket": "KernosError 501",
			}
			if got := b.visit(t, origin+"/sdk", url.Values{"kernel": {k.url}}, nil); !maps.Equal(got, want) {
				t.Errorf("the page was told\n%v, want\n%v", got, want)
			}
		})
	}

	// DNS rebinding: the name of the page's server becomes an address of this machine, so that
	// for the browser page and kernel are of one origin. Nothing but Host tells them apart.
	t.Run("page whose server renames itself", func(t *testing.T) {
		address := testkit.Address(t)
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		theirs := httptest.NewUnstartedServer(servePages())
		_ = theirs.Listener.Close()
		theirs.Listener = l
		theirs.Start()
		t.Cleanup(theirs.Close)
		var k *kernelProcess
		var before map[string]float64
		got := b.visit(t, strings.Replace(theirs.URL, "127.0.0.1", "evil.test", 1), nil, func() {
			theirs.Close()
			k = startKernel(t, binary, address)
			before = k.counts()
		})
		refusal := "403 host_not_allowed"
		want := but(told{
			"call-token": refusal, "call-plain": refusal, "messages-plain": refusal, "messages-opaque": refusal, "health": refusal,
			"form": "host_not_allowed",
		})
		if !maps.Equal(got, want) {
			t.Errorf("the page was told\n%v, want\n%v", got, want)
		}
		k.check(before, map[string]int{"host": len(want)}, nil)
	})
}

// servePages serves the pages: one that tries everything, and one that uses the library.
func servePages() nethttp.Handler {
	mux := nethttp.NewServeMux()
	for path, script := range map[string]string{"/": "/page.js", "/sdk/": "/sdk.js"} {
		mux.HandleFunc("GET "+path+"{$}", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Content-Type", "text/html")
			// The page has its icon, so that the browser does not ask for one.
			_, _ = fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><body><script type="module" src="%s"></script>`, script)
		})
	}
	for path, file := range map[string]string{"/page.js": "npm/page.js", "/sdk.js": "npm/sdk.js", "/kernos.js": "../sdk/typescript/kernos.js"} {
		mux.HandleFunc("GET "+path, func(w nethttp.ResponseWriter, r *nethttp.Request) {
			nethttp.ServeFile(w, r, filepath.FromSlash(file))
		})
	}
	return mux
}

// browser is a browser that runs until the test ends.
type browser struct {
	commands *os.File // what it is told to do; it leaves when this is closed
	ended    chan struct{}
}

// startBrowser starts a browser for which some names are those of this machine, and which finds
// no others. A browser that crashes before it answers anything, which happens, is started again.
func startBrowser(t *testing.T, names ...string) *browser {
	t.Helper()
	for range 3 {
		if b := tryBrowser(t, names...); b != nil {
			return b
		}
	}
	t.Fatal("the browser crashes when it starts")
	return nil
}

// tryBrowser starts a browser. It returns nil if the browser ends before it answers anything.
func tryBrowser(t *testing.T, names ...string) *browser {
	t.Helper()
	dir := t.TempDir()
	installed, err := testbrowser.Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	rules := []string{"EXCLUDE 127.0.0.1", "MAP * ~NOTFOUND"}
	for _, name := range names {
		rules = append([]string{"MAP " + name + " 127.0.0.1"}, rules...)
	}
	read, write := pipe(t)
	answers, answer := pipe(t)
	cmd := exec.Command(installed.Path, "--headless", "--remote-debugging-pipe",
		"--no-sandbox", // it could not be root otherwise; the pages are our own
		"--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--disable-background-networking",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--host-resolver-rules="+strings.Join(rules, ", "))
	cmd.Env = installed.Env
	cmd.ExtraFiles = []*os.File{read, answer}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its processes can be ended with it
	var notes bytes.Buffer
	cmd.Stderr = &notes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = read.Close(), answer.Close()
	_, err = write.WriteString(`{"id":0,"method":"Browser.getVersion"}` + "\x00")
	if err == nil {
		_, err = answers.Read(make([]byte, 1))
	}
	if err != nil {
		_, _ = write.Close(), answers.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		t.Logf("the browser ended with %v before it answered: %v\n%s", cmd.Wait(), err, notes.String())
		return nil
	}
	b := &browser{commands: write, ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		_, _ = io.Copy(io.Discard, answers)
		_ = cmd.Wait() // for all its processes, which have its notes in hand
	}()
	t.Cleanup(func() {
		_ = write.Close()
		select {
		case <-b.ended:
		case <-time.After(testkit.Patience):
			t.Error("the browser does not leave")
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-b.ended
		}
		_ = answers.Close()
		if t.Failed() {
			t.Logf("the browser's notes:\n%s", notes.String())
		}
	})
	return b
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return read, write
}

// visit opens the page of an origin and returns what it was told. Before, if there is one, runs
// when the page is there and before it tries anything.
func (b *browser) visit(t *testing.T, origin string, query url.Values, before func()) told {
	t.Helper()
	arrived, goOn := make(chan struct{}, 1), make(chan struct{})
	reports := make(chan told, 1)
	desk := nethttp.NewServeMux()
	desk.HandleFunc("GET /wait", func(w nethttp.ResponseWriter, r *nethttp.Request) {
		arrived <- struct{}{}
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
	})
	desk.HandleFunc("POST /report", func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		var report told
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			report = told{"error": err.Error()}
		}
		reports <- report
	})
	server := httptest.NewServer(desk)
	defer server.Close()
	address := url.Values{"token": {servedToken}, "report": {server.URL + "/report"}, "wait": {server.URL + "/wait"}}
	maps.Copy(address, query)
	command, err := json.Marshal(map[string]any{"id": 1, "method": "Target.createTarget", "params": map[string]string{"url": origin + "/?" + address.Encode()}})
	if err == nil {
		_, err = b.commands.Write(append(command, 0))
	}
	if err != nil {
		t.Fatalf("the browser can't be told to open a page: %v", err)
	}
	late := time.After(3 * testkit.Patience)
	waiting := true
	defer func() {
		if waiting {
			close(goOn) // the server waits for its requests
		}
	}()
	for {
		select {
		case <-arrived:
			if before != nil {
				before()
			}
			close(goOn)
			waiting = false
		case report := <-reports:
			return report
		case <-b.ended:
			t.Fatal("the browser has left")
		case <-late:
			t.Fatal("the page does not report")
		}
	}
}

// ask asks the kernel as its owner, over the socket, as no browser does.
func (k *kernelProcess) ask(method, path, body string) string {
	k.t.Helper()
	owner := &nethttp.Client{Transport: &nethttp.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", k.socket)
	}}}
	r, err := nethttp.NewRequestWithContext(k.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Close = true
	answer, err := owner.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != nethttp.StatusOK {
		k.t.Fatalf("%s: %s %s %v", path, answer.Status, text, err)
	}
	return string(text)
}

// counts are the kernel's metrics.
func (k *kernelProcess) counts() map[string]float64 {
	k.t.Helper()
	counts := make(map[string]float64)
	for line := range strings.Lines(k.ask("GET", "/metrics", "")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			counts[name] = n
		}
	}
	return counts
}

// check checks what the kernel has refused since it was counted before, and what it has stored.
func (k *kernelProcess) check(before map[string]float64, refused map[string]int, stored []string) {
	k.t.Helper()
	grown := func() map[string]int {
		now := k.counts()
		grown := make(map[string]int)
		for name := range now {
			if reason, ok := strings.CutPrefix(name, `kernos_http_refused_total{reason="`); ok && now[name] > before[name] {
				grown[strings.TrimSuffix(reason, `"}`)] = int(now[name] - before[name])
			}
		}
		for short, name := range map[string]string{"messages": "kernos_messages_total", "sockets": "kernos_websocket_accepted_total"} {
			if n, ok := now[name]; !ok {
				k.t.Fatalf("the kernel does not count %s", name)
			} else if n > before[name] {
				grown[short] = int(n - before[name])
			}
		}
		return grown
	}
	want := maps.Clone(refused)
	for _, name := range stored {
		want["messages"]++
		if strings.HasPrefix(name, "socket-") {
			want["sockets"]++
		}
	}
	// A page does not learn when a beacon has come, nor when it has had its effect.
	got := grown()
	for end := time.Now().Add(testkit.Patience); sum(got) < sum(want) && time.Now().Before(end); {
		got = grown()
	}
	if !maps.Equal(got, want) {
		k.t.Errorf("the kernel counts %v, want %v", got, want)
	}
	there := k.stored()
	for end := time.Now().Add(testkit.Patience); len(there) < len(stored) && time.Now().Before(end); {
		there = k.stored()
	}
	if !slices.Equal(there, stored) {
		k.t.Errorf("%v were stored, want %v", there, stored)
	}
}

// stored are the names of the values that pages have stored.
func (k *kernelProcess) stored() (names []string) {
	k.t.Helper()
	var listed struct{ Keys []string }
	if err := json.Unmarshal([]byte(k.ask("POST", "/v1/call/memory/list", `{"prefix":"/browser"}`)), &listed); err != nil {
		k.t.Fatal(err)
	}
	for _, key := range listed.Keys {
		names = append(names, key[strings.LastIndexByte(key, '/')+1:])
	}
	slices.Sort(names)
	return names
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
