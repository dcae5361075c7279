package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
)

func TestOneConnectionTooMany(t *testing.T) {
	s := open(t, siteOptions{Options: Options{MaxConnections: 1}})
	first := s.dial()
	testkit.Until(t, "the first is there", func() bool { return s.Stats().Connections == 1 })
	if a := s.do("GET", "/healthz", ""); a.status != 429 || a.name() != "too_many_connections" || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "There are 1 connections") {
		t.Errorf("%d %s", a.status, a.body)
	}
	_ = first.Close()
	testkit.Until(t, "both have gone", func() bool { return s.Stats().Connections == 0 })
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestOneRequestTooMany(t *testing.T) {
	syscall, begun, _, release := running("Test.Wait", message.KindQuery)
	s := open(t, siteOptions{Options: Options{MaxRequests: 1}, syscalls: []kernel.Syscall{syscall}})
	answers := make(chan answer, 1)
	go func() { answers <- s.do("POST", "/v1/call/test/wait", "") }()
	soon(t, "it begins", begun)
	if a := s.do("GET", "/healthz", ""); a.status != 503 || a.name() != "too_many_requests_at_once" {
		t.Errorf("%d %s", a.status, a.body)
	}
	release <- struct{}{}
	if a := soon(t, "it is answered", answers); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestOneRequestTooSoon(t *testing.T) {
	s := open(t, siteOptions{Options: Options{RequestRate: 0.001}})
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.do("GET", "/healthz", ""); a.status != 429 || a.name() != "rate_exceeded" || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestRatesAreBounded(t *testing.T) {
	now := time.Unix(1, 0)
	r := newRates(1)
	if !r.allow("192.0.2.1:1", now) || r.allow("192.0.2.1:2", now) || !r.allow("192.0.2.2:1", now) {
		t.Error("each address has its own")
	}
	for i := range maxAddresses + 10 {
		r.allow(fmt.Sprintf("[2001:db8::%x]:1", i), now)
	}
	if len(r.from) > maxAddresses+1 {
		t.Errorf("%d addresses are kept", len(r.from))
	}
	if now = now.Add(time.Minute); !r.allow("192.0.2.1:1", now) || len(r.from) > maxAddresses+1 {
		t.Errorf("%d addresses are kept", len(r.from))
	}
	r.allow("192.0.2.3:1", now)
	if len(r.from) > 3 {
		t.Errorf("%d addresses are kept that have been silent", len(r.from))
	}
}

func TestHeadersThatAreTooLarge(t *testing.T) {
	s := open(t, siteOptions{})
	c := s.dial()
	// As much as the server reads, and not more: it would be lost with the answer.
	const start = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: "
	if _, err := io.WriteString(c, start+strings.Repeat("x", 16<<10+4096-len(start))); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 431 ") {
		t.Errorf("%v: %s", err, text)
	}
}

// A client that does not read does not hold up the server for ever.
func TestWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, siteOptions{memory: true, Options: Options{WriteTime: time.Second}})
		c := s.dial()
		_, err := io.WriteString(c, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		line := []byte(ask("x", "Ping", `{"payload":"`+strings.Repeat("x", 8000)+`"}`))
		for err == nil {
			_, err = c.Write(line)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("it was cut off after %v", took)
		}
		synctest.Wait()
		if n := s.Stats().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

func TestBlobs(t *testing.T) {
	s := open(t, siteOptions{})
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	b, err := s.blobs.Put(data)
	if err != nil {
		t.Fatal(err)
	}
	path := "/v1/blobs/" + b.Hash.String()
	a := s.do("GET", path, "")
	if a.status != 200 || a.body != string(data) || a.header.Get("ETag") != `"`+b.Hash.String()+`"` ||
		!strings.Contains(a.header.Get("Cache-Control"), "immutable") || a.header.Get("Content-Type") != "application/octet-stream" ||
		!strings.Contains(a.header.Get("Content-Security-Policy"), "sandbox") || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d, %d bytes, %v", a.status, len(a.body), a.header)
	}
	for _, c := range []struct {
		method string
		header []string
		status int
		body   string
	}{
		{"GET", []string{"Range", "bytes=10-14"}, 206, "01234"},
		{"GET", []string{"Range", "bytes=-3"}, 206, "789"},
		{"GET", []string{"Range", "bytes=999998-"}, 206, "89"},
		{"GET", []string{"Range", "bytes=0-1,4-5,4-5"}, 206, ""},
		{"GET", []string{"Range", "bytes=0-1", "If-Range", `"another"`}, 200, string(data)},
		{"GET", []string{"Range", "bytes=0-1", "If-Range", a.header.Get("ETag")}, 206, "01"},
		{"GET", []string{"If-None-Match", a.header.Get("ETag")}, 304, ""},
		{"HEAD", nil, 200, ""},
	} {
		got := s.do(c.method, path, "", c.header...)
		if got.status != c.status || got.body != c.body && c.body != "" {
			t.Errorf("%s %q: %d %.100s", c.method, c.header, got.status, got.body)
		}
	}
	for _, beyond := range []string{"bytes=2000000-", "bytes=5-4", "bytes=x", "lines=1-2"} {
		if got := s.do("GET", path, "", "Range", beyond); got.status != 416 || got.name() != "bad_range" || got.header.Get("ETag") != "" || got.header.Get("Cache-Control") != "no-store" ||
			beyond == "bytes=2000000-" && got.header.Get("Content-Range") != "bytes */1000000" {
			t.Errorf("%s: %d %s %v", beyond, got.status, got.body, got.header)
		}
	}
	for id, want := range map[string]string{
		blobs.Sum([]byte("none")).String(): "404 no_such_blob", "..%2f..%2fetc%2fpasswd": "400 bad_blob_id", "abc": "400 bad_blob_id",
		strings.ToUpper(b.Hash.String()): "400 bad_blob_id",
	} {
		if got := s.do("GET", "/v1/blobs/"+id, ""); fmt.Sprint(got.status, " ", got.name()) != want {
			t.Errorf("%s: %d %s", id, got.status, got.body)
		}
	}
}

func TestReadiness(t *testing.T) {
	var trouble error
	s := open(t, siteOptions{Options: Options{Ready: func() error { return trouble }}})
	if a := s.do("GET", "/readyz", ""); a.status != 200 || a.body != `{"status":"ready"}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	trouble = errors.New("a secret of the disk")
	if a := s.do("GET", "/readyz", ""); a.status != 503 || a.name() != "not_ready" || strings.Contains(a.body, "secret") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("it lives: %d %s", a.status, a.body)
	}
}

// The page is what Prometheus reads, with its own parser: each name is described once, before
// its numbers.
func TestMetrics(t *testing.T) {
	s := open(t, siteOptions{guard: new(Guard), Options: Options{Collect: func(m *Metrics) {
		m.Gauge("test_gauge", "A \\ and\na line.", 1.5, Label{"a", "x\"y\\\n"}, Label{"b", ""})
		m.Gauge("test_odd", "Numbers that are none.", math.Inf(1), Label{"of", "inf"})
		m.Gauge("test_odd", "Numbers that are none.", math.NaN(), Label{"of", "nan"})
	}}})
	s.do("POST", "/v1/call/kernel/ping", `{"payload":1}`)
	s.do("GET", "/nothing", "")
	s.do("GET", "/healthz", "", "Host", "evil.example.net")
	a := s.do("GET", "/metrics", "")
	if a.status != 200 || expfmt.ResponseFormat(a.header) != expfmt.NewFormat(expfmt.TypeTextPlain) {
		t.Errorf("%d %v", a.status, a.header)
	}
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(strings.NewReader(a.body + "\n"))
	if err != nil {
		t.Fatalf("%v:\n%s", err, a.body)
	}
	for name, f := range families {
		if f.GetHelp() == "" || (f.GetType().String() == "COUNTER") != strings.HasSuffix(name, "_total") || strings.Count(a.body, "# TYPE "+name+" ") != 1 {
			t.Errorf("%s is a %s: %s", name, f.GetType(), f.GetHelp())
		}
	}
	gauge := families["test_gauge"].GetMetric()[0]
	if label := gauge.GetLabel()[0]; label.GetValue() != "x\"y\\\n" || gauge.GetGauge().GetValue() != 1.5 || families["test_gauge"].GetHelp() != "A \\ and\na line." {
		t.Errorf("it became %s of %v", gauge, families["test_gauge"])
	}
	for _, want := range []string{
		"\nkernos_messages_total 1\n", `kernos_http_answers_total{class="2xx"} 1`, `kernos_http_answers_total{class="4xx"} 2`,
		`kernos_http_refused_total{reason="host"} 1`, "go_goroutines ",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("there is no %s in\n%s", want, a.body)
		}
	}
}

func TestAServerServesOnce(t *testing.T) {
	s := open(t, siteOptions{})
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if err := s.Serve(t.Context()); err == nil {
		t.Error("it serves twice")
	}
}

// A WebSocket is none of the connections and requests that are counted, and it is told when
// the server ends.
type hijacker struct {
	conns chan net.Conn
	ended chan struct{}
}

func (h *hijacker) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		h.conns <- c
	}
}

func (h *hijacker) Shutdown(context.Context) error {
	close(h.ended)
	return nil
}

func TestWebSocketsAreForAnotherHandler(t *testing.T) {
	h := &hijacker{conns: make(chan net.Conn, 1), ended: make(chan struct{})}
	s := open(t, siteOptions{Options: Options{WebSocket: h}})
	c := s.dial()
	if _, err := io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	theirs := soon(t, "it is handed over", h.conns)
	if _, ok := theirs.(*net.TCPConn); !ok {
		t.Errorf("got a %T, with which nothing can be sent without waiting", theirs)
	}
	testkit.Until(t, "it does not count", func() bool { return s.Stats().Connections+s.requests.Stats().Connections == 0 })
	if err := s.end(); err != nil {
		t.Error(err)
	}
	soon(t, "it is told", h.ended)
	if _, err := io.WriteString(theirs, "still there"); err != nil {
		t.Error(err)
	}
	_ = theirs.Close()
}
