package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/internal/testkit"
	"kernos/message"
	"kernos/transport/unix"
)

// reached returns where a daemon says that it serves, by scheme.
func (h *house) reached() map[string]string {
	h.t.Helper()
	out, notes, status := h.run("", "status", "--json")
	var s struct{ Listening []string }
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != 0 {
		h.t.Fatalf("status %d: %s%s", status, out, notes)
	}
	places := make(map[string]string)
	for _, url := range s.Listening {
		scheme, place, _ := strings.Cut(url, "://")
		places[scheme] = place
	}
	return places
}

// post sends a request over a TCP address, or over a unix socket, and returns the status and
// the body of the answer.
func post(t *testing.T, network, address, path, token, body string) (int, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	r, err := http.NewRequest("POST", "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (h *house) token(args ...string) string {
	h.t.Helper()
	out, notes, status := h.run("", append([]string{"token"}, args...)...)
	if status != 0 || len(out) < 40 {
		h.t.Fatalf("status %d: %s%s", status, out, notes)
	}
	return strings.TrimSpace(out)
}

const pingCall = "/v1/call/kernel/ping"

func TestADaemonServesHTTP(t *testing.T) {
	h := newHouse(t)
	h.env = append(h.env, "KERNOS_NO_HTTP=false")
	s := h.serve("--addr", "127.0.0.1:0")
	places := h.reached()
	if status, body := post(t, "tcp", places["http"], pingCall, "", `{"payload":1}`); status != 401 || !strings.Contains(body, "kernos token") {
		t.Errorf("without the token: %d %s", status, body)
	}
	first := h.token()
	if status, body := post(t, "tcp", places["http"], pingCall, first, `{"payload":1}`); status != 200 || body != `{"payload":1}`+"\n" {
		t.Errorf("with it: %d %s", status, body)
	}
	if places["http+unix"] != places["unix"] {
		t.Errorf("the sockets are %v", places)
	}
	if info, err := os.Stat(places["unix"]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// The socket takes both protocols.
	sockets := []string{places["unix"]}
	for _, socket := range sockets {
		if status, body := post(t, "unix", socket, pingCall, "", `{"payload":2}`); status != 200 || body != `{"payload":2}`+"\n" {
			t.Errorf("HTTP over %s: %d %s", socket, status, body)
		}
		if status, body := post(t, "unix", socket, "/ws", "", ""); status == 200 || !strings.Contains(body, "WebSocket") {
			t.Errorf("what isn't an upgrade, over %s: %d %s", socket, status, body)
		}
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&unix.Conn{UnixConn: conn.(*net.UnixConn)}).Ask(t.Context(), message.Message{Kind: message.KindQuery, Type: message.Ping, Data: []byte(`{"payload":3}`)})
		if err != nil || string(answer.Data) != `{"payload":3}` {
			t.Errorf("a line over %s: %s, %v", socket, answer.Data, err)
		}
	}
	// A new token is known to the daemon that runs.
	second := h.token("--new")
	testkit.Until(t, "the new token is taken", func() bool {
		status, _ := post(t, "tcp", places["http"], pingCall, second, `{}`)
		return status != 401
	})
	if status, _ := post(t, "tcp", places["http"], pingCall, first, `{}`); status != 401 || second == first || h.token() != second {
		t.Errorf("the old one: %d", status)
	}
	info, err := os.Stat(filepath.Join(h.home, "token"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// What came over HTTP is recorded like everything else.
	if out, _, status := h.run("", "log", "--type", "Ping", "--json"); status != 0 || strings.Count(out, "\n") < 4 {
		t.Errorf("status %d: %s", status, out)
	}
	if _, notes, status := h.run("", "stop"); status != 0 {
		t.Errorf("status %d: %s", status, notes)
	}
	if status := s.wait(); status != 0 {
		t.Errorf("status %d: %s", status, s.notes)
	}
	for _, socket := range sockets {
		if _, err := os.Lstat(socket); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", socket, err)
		}
	}
}

// A WebSocket is served at the socket, too.
func TestADaemonServesWebSockets(t *testing.T) {
	h := newHouse(t)
	h.serve()
	c, err := net.Dial("unix", h.reached()["http+unix"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, len("HTTP/1.1 101 "))
	if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 101 " {
		t.Errorf("%q, %v", head, err)
	}
}

func TestAnAddressThatIsTaken(t *testing.T) {
	h := newHouse(t)
	h.env = append(h.env, "KERNOS_NO_HTTP=false")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	accept := func(l net.Listener) { // it is no web server
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}
	go accept(taken)
	address := taken.Addr().String()
	_, notes, status := h.run("", "serve", "--addr", address)
	if want := address + " is in use by another program; choose another one with --addr"; status != 1 || !strings.Contains(notes, want) {
		t.Errorf("status %d: %s", status, notes)
	}
	if _, _, running := h.daemon(); running {
		t.Error("the socket is held")
	}
	// The default one is left to the process that has it: this one, or another one that had it first.
	hold := func() error {
		l, err := net.Listen("tcp", daemon.DefaultAddress)
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
			go accept(l)
		}
		return err
	}
	held := hold()
	s := h.serve()
	for held != nil && h.reached()["http"] == daemon.DefaultAddress { // the other process has let go of it meanwhile
		_ = s.Process.Kill()
		s.wait()
		held = hold()
		s = h.serve()
	}
	if places := h.reached(); places["http"] != "" || places["http+unix"] == "" {
		t.Errorf("it serves %v", places)
	}
	if !strings.Contains(h.log(), daemon.DefaultAddress+" is in use by ") {
		t.Errorf("it says %s", h.log())
	}
	_ = s.Process.Kill()
	s.wait()
}

func TestASecondKernosIsToldOfTheFirst(t *testing.T) {
	first, second := newHouse(t), newHouse(t)
	first.env = append(first.env, "KERNOS_NO_HTTP=false")
	second.env = append(second.env, "KERNOS_NO_HTTP=false")
	first.serve("--addr", "127.0.0.1:0")
	address := first.reached()["http"]
	if _, notes, status := second.run("", "serve", "--addr", address); status != 1 || !strings.Contains(notes, "in use by another kernos") {
		t.Errorf("status %d: %s", status, notes)
	}
}

// With keys, no client gets around the signature by HTTP: what lies in a file, for every program
// of the user to read, is no way in.
func TestTheSignatureCannotBeAvoided(t *testing.T) {
	h := newCaller(t)
	h.env = append(h.env, "KERNOS_NO_HTTP=false")
	file, key := signingKey(t)
	h.serve("--auth-key", file)
	token := h.token()
	_, socket, _ := h.daemon()
	refusesUnsigned(t, socket, "", token)
	set := []string{"call", "Memory.Set", "--key", "bypass", "--value", "1"}
	if out, notes, status := h.run("", set...); status != exit.Unreachable || out != "" || !strings.Contains(notes, "SSH_AUTH_SOCK is not set") {
		t.Errorf("a call without an agent: status %d: %s%s", status, out, notes)
	}
	if out, notes, status := h.run("", "doctor"); status != exit.Forbidden || !strings.Contains(out, "SSH_AUTH_SOCK is not set") {
		t.Errorf("the doctor leaves with %d: %s%s", status, out, notes)
	}
	env := h.env
	_, other := signingKey(t)
	h.env = append(env, "SSH_AUTH_SOCK="+testkit.ServeAgent(t, testkit.Keyring(t, other)))
	if out, notes, status := h.run("", set...); status != exit.Unreachable || out != "" || !strings.Contains(notes, "ssh-add") {
		t.Errorf("a call with another key: status %d: %s%s", status, out, notes)
	}
	h.env = append(env, "SSH_AUTH_SOCK="+testkit.ServeAgent(t, testkit.Keyring(t, key)))
	if out, notes, status := h.run("", "call", "Memory.Get", "--key", "bypass"); status == 0 {
		t.Errorf("it was set: %s%s", out, notes)
	}
	if out, notes, status := h.run("", set...); status != 0 {
		t.Errorf("a call with the key: status %d: %s%s", status, out, notes)
	}
	if places := h.reached(); places["http"] != "" {
		t.Errorf("it serves %v", places)
	}
	if out, notes, status := h.run("", "doctor"); status != 0 {
		t.Errorf("the doctor leaves with %d: %s%s", status, out, notes)
	}
	// A context that names the socket signs, too.
	if out, notes, status := h.run("", "context", "add", "signed", "unix://"+socket); status != 0 {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if out, notes, status := h.run("", "call", "Ping", "payload:=1", "--context", "signed"); status != 0 || out != "{\"payload\":1}\n" {
		t.Errorf("a context: status %d: %s%s", status, out, notes)
	}
}

// refusesUnsigned sends requests with tokens to a socket where clients must sign.
func refusesUnsigned(t *testing.T, socket string, tokens ...string) {
	t.Helper()
	for _, token := range tokens {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "POST "+pingCall+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\nContent-Length: 2\r\n\r\n{}")
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		if challenge, rest, _ := strings.Cut(string(answer), "\n"); !strings.Contains(challenge, "Syscall.Authenticate") || rest != "" {
			t.Errorf("with the token %q: %s", token, answer)
		}
	}
}

// A TCP address is served beside keys only if the operator says that this is meant.
func TestATCPAddressBesideKeys(t *testing.T) {
	h := newHouse(t)
	h.env = append(h.env, "KERNOS_NO_HTTP=false")
	file, key := signingKey(t)
	_, notes, status := h.run("", "serve", "--auth-key", file, "--addr", "127.0.0.1:0")
	if status != exit.Usage || !strings.Contains(notes, "allow it with insecure-listen-without-signature") {
		t.Errorf("status %d: %s", status, notes)
	}
	h.serve("--auth-key", file, "--addr", "127.0.0.1:0", "--insecure-listen-without-signature")
	h.env = append(h.env, "SSH_AUTH_SOCK="+testkit.ServeAgent(t, testkit.Keyring(t, key)))
	places := h.reached()
	if status, body := post(t, "tcp", places["http"], pingCall, h.token(), `{"payload":1}`); status != 200 {
		t.Errorf("with the token: %d %s", status, body)
	}
	refusesUnsigned(t, places["http+unix"], h.token())
}

// A call starts a daemon that wants a signature, and signs.
func TestACallStartsADaemonThatWantsASignature(t *testing.T) {
	h := newCaller(t)
	file, key := signingKey(t)
	if err := os.WriteFile(filepath.Join(h.home, "config.yaml"), []byte("no-http: true\nauth-key: "+file+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "SSH_AUTH_SOCK="+testkit.ServeAgent(t, testkit.Keyring(t, key)))
	if out, notes, status := h.run("", "call", "Ping", "payload:=1"); status != 0 || out != "{\"payload\":1}\n" {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if info, _, running := h.daemon(); !running || !info.Auth {
		t.Errorf("the test shows nothing: %+v, %t", info, running)
	}
}

func TestAddressesThatCantBeServed(t *testing.T) {
	file, _ := signingKey(t)
	h := newHouse(t)
	for args, want := range map[string]string{
		"--addr 0.0.0.0:0":                        "other machines can reach 0.0.0.0:0, so it is not served without TLS",
		"--addr :0":                               "other machines can reach :0",
		"--addr nonsense":                         `expected an address and a port such as 127.0.0.1:7420, got "nonsense"`,
		"--tls-cert a":                            "--tls-cert: a certificate and its key belong together",
		"--tls-cert a --tls-key b":                "the certificate can't be used",
		"--no-token --token-file a":               "--no-token: contradicts token-file",
		"--no-token --auth-key " + file:           "--no-token: HTTP would let in callers that can't sign",
		"--allow-host https://a":                  "--allow-host: expected the name of a host",
		"--allow-origin a.example":                "--allow-origin: expected the origin of a web page",
		"--addr 127.0.0.1:0 --token-file /dev/fd": "a file with a token",
	} {
		h.env = append(h.env, "KERNOS_NO_HTTP=false")
		_, notes, status := h.run("", append([]string{"serve"}, strings.Fields(args)...)...)
		if status != exit.Usage && status != exit.Failure || !strings.Contains(notes, want) {
			t.Errorf("%s: status %d: %s", args, status, notes)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(h.runtime, "*", "*.sock")); len(left) > 0 {
		t.Errorf("sockets are left: %q", left)
	}
}

// signingKey is a file with a public key, and the private one.
func signingKey(t *testing.T) (file string, key ed25519.PrivateKey) {
	t.Helper()
	private, public := testkit.Key(t)
	file = filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, ssh.MarshalAuthorizedKey(public), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, private
}
