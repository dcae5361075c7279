package mcp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/transport"
	"kernos/transport/mcp"
)

// post sends a request of the stateless era, and returns the answer.
func post(t *testing.T, address, method, name, members string) (*http.Response, string) {
	t.Helper()
	response := sendHTTP(t, address, http.MethodPost, request(1, method, members+modernMeta), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// A handler that overstays its deadline on the goroutine of its request, or ends that goroutine, is answered
// for, and its connection isn't used again.
func TestLateHandlerOverHTTP(t *testing.T) {
	stuck := make(chan struct{})
	_, address := serve(t, func(o *daemon.Options) {
		o.Modules = append(o.Modules, kerneltest.Module("fixture",
			kerneltest.Within(time.Millisecond, kerneltest.Stubborn("Fixture.Stuck", stuck)),
			kerneltest.Raw("Fixture.Gone", func(context.Context, message.Message, kernel.Emit) { runtime.Goexit() }),
		))
	})
	defer close(stuck)
	for name, code := range map[string]string{"Fixture_Stuck": `"code":504`, "Fixture_Gone": `"code":500`} {
		response, got := post(t, address, "tools/call", name, `"name":"`+name+`",`)
		check(t, name, got, `"isError":true`, code)
		if !response.Close {
			t.Errorf("%s: the connection may be used again", name)
		}
	}
}

// A principal that opens many sessions ends its own ones only, and the last of them to go is one whose stream is open.
func TestSessionsOfOthersStay(t *testing.T) {
	d, _ := serve(t, nil)
	s := mcp.New(d.Kernel(), &mcp.Options{MaxSessions: 4})
	requests := transport.NewServer(d.Kernel(), transport.Limits{}, nil, nil, nil)
	defer func() { _ = s.Shutdown(t.Context()) }()
	one, two := agent(t, principal.Grant{Preset: principal.Agent}), principal.TheOwner()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := two
		if r.Header.Get("Authorization") == one.Name() {
			p = one
		}
		ctx := kernel.ActFor(r.Context(), kernel.From(p, "http"))
		s.Serve(requests, w, r.WithContext(ctx))
	}))
	defer served.Close()
	send := func(p *principal.Principal, method, session, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, served.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {p.Name()}, "Mcp-Session-Id": {session}}
		response, err := served.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			_, _ = io.Copy(io.Discard, response.Body) // the end comes when the server has served the request
			_ = response.Body.Close()
		}
		return response
	}
	begin := func(p *principal.Principal) string {
		return send(p, "POST", "", request(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{}`)).Header.Get("Mcp-Session-Id")
	}
	lives := func(p *principal.Principal, session string) bool {
		return send(p, "POST", session, request(2, "ping", ``)).StatusCode == http.StatusOK
	}
	quiet, reading, idle := begin(one), begin(two), begin(two)
	follows := send(two, "GET", reading, "")
	defer func() { _ = follows.Body.Close() }()
	for range 10 {
		begin(two)
	}
	if !lives(one, quiet) {
		t.Error("another principal has ended the session")
	}
	if !lives(two, reading) || lives(two, idle) {
		t.Error("a session whose stream is open has ended before idle ones")
	}
}

// A client that comes back for a stream before the server knows that its connection is lost gets what follows.
func TestAStreamIsTakenOver(t *testing.T) {
	k := kerneltest.New(t, nil)
	s, requests := mcp.New(k, nil), transport.NewServer(k, transport.Limits{}, nil, nil, nil)
	session := ""
	send := func(ctx context.Context, w http.ResponseWriter, method, last, body string) {
		r := httptest.NewRequestWithContext(ctx, method, "/mcp?tools=all", strings.NewReader(body))
		r.Header = http.Header{"Mcp-Session-Id": {session}, "Last-Event-Id": {last}}
		s.Serve(requests, w, r)
	}
	first := httptest.NewRecorder()
	send(t.Context(), first, "POST", "", request(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{}`))
	session = first.Header().Get("Mcp-Session-Id")
	open := func(ctx context.Context, last string) (lines *bufio.Scanner, left chan struct{}) {
		read, write := io.Pipe()
		p := &piped{ResponseRecorder: httptest.NewRecorder(), to: write, begun: make(chan struct{})}
		left = make(chan struct{})
		go func() {
			defer close(left)
			send(ctx, p, "GET", last, "")
			_ = write.Close()
		}()
		<-p.begun
		return bufio.NewScanner(read), left
	}
	lost, lose := context.WithCancel(t.Context())
	old, oldLeft := open(lost, "")
	go func() {
		for old.Scan() {
		}
	}()
	current, currentLeft := open(t.Context(), "2-0")
	lose()
	<-oldLeft
	send(t.Context(), httptest.NewRecorder(), "POST", "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	one := kernel.Definition{Type: "Another.One", Kind: message.KindQuery, Summary: "One.", Input: schema.Written(`{"type":"object"}`), Output: schema.Written(`{"type":"object"}`)}
	if err := k.Registry().AddSyscall(kernel.Module{Name: "another", Version: "1.0.0", Summary: "One."}, one.BindHandler(func(context.Context, message.Message, kernel.Emit) {})); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(current.Text(), "notifications/tools/list_changed") {
		if !current.Scan() {
			t.Fatal("the client isn't told")
		}
	}
	go func() {
		for current.Scan() {
		}
	}()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-currentLeft
}

// piped is a response that is read while it is written.
type piped struct {
	*httptest.ResponseRecorder
	to    io.Writer
	begun chan struct{} // closed when the headers are sent
}

func (p *piped) WriteHeader(int) { close(p.begun) }

func (p *piped) Write(b []byte) (int, error) {
	if len(b) == 0 { // a pipe would wait for its reader
		return 0, nil
	}
	return p.to.Write(b)
}
