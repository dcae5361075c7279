package door_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"kernos/cluster/door"
	"kernos/internal/testkit"
	"kernos/message"
)

// call calls a syscall at the TCP address of a node.
func (n *node) call(ctx context.Context, method, host, key string, more ...string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.tcp+"/v1/call/"+method, strings.NewReader(`{"payload":1}`))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if host != "" {
		r.Host = host
	}
	for i := 0; i+1 < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text) + answer.Header.Get("Retry-After"), err
}

// The guard of the owner decides about requests to another node by the address that their client used.
func TestTheGuardOfTheOwnerDecides(t *testing.T) {
	n := startNode(t, startOwner(t), &door.Lines{})
	for _, c := range []struct {
		host, key string
		more      []string
		want      int
	}{
		{"", token, nil, 200}, {"localhost", token, nil, 200}, {"", "another", nil, 401}, {"evil.example.com", token, nil, 403},
		{"", token, []string{"Origin", "https://evil.example.com"}, 403},
	} {
		status, body, err := n.call(t.Context(), "syscall/ping", c.host, c.key, c.more...)
		if err != nil || status != c.want {
			t.Errorf("%+v: %d %s, %v", c, status, body, err)
		}
	}
}

// A socket's HTTP needs no token, and requests come one after the other over one connection.
func TestHTTPOfTheSocketIsPassedOn(t *testing.T) {
	n := startNode(t, startOwner(t), &door.Lines{})
	p := n.connect()
	for range 3 {
		p.say("POST /v1/call/syscall/ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n{\"payload\":1}")
		_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
		answer, err := http.ReadResponse(p.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != 200 {
			t.Fatalf("%d %s, %v", answer.StatusCode, body, err)
		}
	}
}

// A client of HTTP that hangs up cancels its call at the owner.
func TestHangingUpOverHTTPCancels(t *testing.T) {
	runs, ended := make(chan message.ID, 1), make(chan error, 1)
	n := startNode(t, startOwner(t, waits(message.KindQuery, "Test.Slow", runs, ended, false)), &door.Lines{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = n.call(ctx, "test/slow", "", token)
	}()
	receive(t, runs)
	cancel()
	if err := receive(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-done
}

// When the owner goes, requests are repeated if that is safe, and get a 503 with Retry-After otherwise.
func TestTheOwnerGoesWithRequests(t *testing.T) {
	runs := make(chan message.ID, 10)
	first := startOwner(t, waits(message.KindQuery, "Test.Slow", runs, nil, false), waits(message.KindCommand, "Test.Command", runs, nil, false))
	next := startOwner(t, answers(message.KindQuery, "Test.Slow"), answers(message.KindCommand, "Test.Command"))
	n := startNode(t, first, &door.Lines{})
	type result struct {
		name, text string
	}
	results := make(chan result, 3)
	for name, more := range map[string][]string{"test/slow": nil, "test/command": nil, "test/command keyed": {"Idempotency-Key", "k"}} {
		go func() {
			method, _, _ := strings.Cut(name, " ")
			status, body, err := n.call(t.Context(), method, "", token, more...)
			results <- result{name, fmt.Sprint(status, body, err)}
		}()
	}
	for range 3 {
		receive(t, runs)
	}
	n.become(next)
	first.stop()
	for range 3 {
		r := receive(t, results)
		if r.name == "test/command" {
			if !strings.HasPrefix(r.text, "503") || !strings.Contains(r.text, "no_owner") || !strings.Contains(r.text, "\n1") {
				t.Errorf("%s: %s", r.name, r.text)
			}
		} else if !strings.HasPrefix(r.text, `200`) || !strings.Contains(r.text, `here`) {
			t.Errorf("%s: %s", r.name, r.text)
		}
	}
}

// Without an owner a request gets a 503, and the health of the node is answered.
func TestRequestsWithoutAnOwner(t *testing.T) {
	n := startNode(t, nil, &door.Lines{Waiting: 20 * time.Millisecond})
	if status, body, err := n.call(t.Context(), "syscall/ping", "", token); err != nil || status != 503 || !strings.Contains(body, "no_owner") {
		t.Errorf("%d %s, %v", status, body, err)
	}
	answer, err := http.Get("http://" + n.tcp + "/healthz")
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%v, %v", answer, err)
	}
	_ = answer.Body.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A WebSocket carries calls, and is closed with the status 1012 when the owner goes.
func TestAWebSocketEndsWithTheOwner(t *testing.T) {
	first := startOwner(t, answers(message.KindQuery, "Test.Slow"))
	n := startNode(t, first, &door.Lines{})
	conn, err := net.Dial("tcp", n.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", n.tcp, token)
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", answer, err)
	}
	request := `{"jsonrpc":"2.0","id":1,"method":"syscall_ping","params":[{"payload":1}]}`
	frame := append([]byte{0x81, 0x80 | byte(len(request)), 0, 0, 0, 0}, request...)
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	var heard bytes.Buffer
	for !bytes.Contains(heard.Bytes(), []byte(`"done"`)) {
		b, err := in.ReadByte()
		if err != nil {
			t.Fatalf("%q, %v", heard.String(), err)
		}
		heard.WriteByte(b)
	}
	first.stop()
	rest, err := io.ReadAll(in)
	if err != nil || !bytes.HasSuffix(rest, []byte("\x88\x02\x03\xf4")) {
		t.Errorf("%q, %v", rest, err)
	}
}

// Messages and answers pass at the same time over one request.
func TestMessagesOverHTTPArePassedOn(t *testing.T) {
	n := startNode(t, startOwner(t), &door.Lines{})
	in, out := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.tcp+"/v1/messages", in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() { _, _ = io.WriteString(out, request(message.KindQuery, "1", "Ping", "")) }()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	for i := 1; i < 5; i++ {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		var m struct{ Metadata struct{ Causation string } }
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.Metadata.Causation != fmt.Sprint(i) {
			t.Fatalf("%s, %v", lines.Text(), err)
		}
		if _, err := io.WriteString(out, request(message.KindQuery, fmt.Sprint(i+1), "Ping", "")); err != nil {
			t.Fatal(err)
		}
	}
	_ = out.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Error(err)
	}
}
