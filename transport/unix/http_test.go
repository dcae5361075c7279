package unix

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/transport"
)

// A site answers requests of HTTP with their path, and counts them.
type site struct {
	http.Server
	requests atomic.Int64
}

// serve makes a server hand its connections of HTTP to the site.
func (w *site) serve(t *testing.T) func(*Server) {
	w.Handler = http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		_, _ = io.WriteString(to, r.Method+" "+r.URL.Path)
	})
	return func(s *Server) {
		l := s.HTTP()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = w.Serve(l)
		}()
		t.Cleanup(func() {
			_ = w.Close()
			<-ended
		})
	}
}

// hearHTTP returns the status of an answer and its body, or how the connection has ended.
func (p *peer) hearHTTP() string {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
	answer, err := http.ReadResponse(p.lines, nil)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(answer.Body)
	return answer.Status[:4] + string(body) + errorText(err)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

const get = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"

// The first byte says what a connection speaks: a capital letter begins HTTP, all else is lines.
func TestTheFirstByteSaysWhatIsSpoken(t *testing.T) {
	w := new(site)
	d := start(t, kerneltest.Around(t, nil, introspect.Module), nil, w.serve(t))
	whole := func(p *peer, text string) { p.say(text) }
	slowly := func(p *peer, text string) {
		for i := range len(text) {
			p.say(text[i : i+1])
		}
	}
	for name, say := range map[string]func(*peer, string){"whole": whole, "byte by byte": slowly} {
		for text, want := range map[string]string{
			get: "200 GET /a",
			"POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}": "200 POST /b",
			"HELLO\r\n": "400 400 Bad Request",
		} {
			p := d.dial()
			say(p, text)
			if got := p.hearHTTP(); got != want {
				t.Errorf("%s, %q: %s", name, text, got)
			}
		}
		for text, want := range map[string]string{
			ping("1"):                        pong("1"),
			"\n" + ping("1"):                 pong("1"),
			" \t" + ping("1"):                pong("1"),
			"\r\n" + get:                     " 400", // no such server would take it
			"\xEF\xBB\xBF" + ping("1"):       pong("1"),
			"get / HTTP/1.1\r\n":             " 400",
			"nonsense\n":                     " 400",
			"\x16\x03\x01\x02\x00\x01\xfc\n": " 400", // TLS
		} {
			p := d.dial()
			say(p, text)
			p.want(want)
			p.say(ping("2") + get) // it stays what it is
			for got := p.hear(); got != pong("2"); got = p.hear() {
				if got != " 400" {
					t.Errorf("%s, %q: then %s", name, text, got)
				}
			}
			p.want(" 400")
		}
	}
	if n := w.requests.Load(); n != 4 {
		t.Errorf("%d requests came", n)
	}
}

// A connection of HTTP takes no place of a connection that carries lines.
func TestHTTPHasNoPlace(t *testing.T) {
	w := new(site)
	d := start(t, kerneltest.Around(t, nil, introspect.Module, overseen()...), &Options{MaxConnections: 1}, w.serve(t), func(s *Server) { s.operatorTime = time.Hour })
	var open []*peer
	for range 3 * operatorPlaces {
		p := d.dial()
		p.say(get)
		if got := p.hearHTTP(); got != "200 GET /a" {
			t.Fatal(got)
		}
		testkit.Until(t, "it has left", func() bool { return d.s.Stats().Connections == 0 })
		open = append(open, p)
	}
	one := d.dial()
	one.say(ping("1"))
	one.want(pong("1"))
	// With all places taken, HTTP passes by the places of the operator.
	for range 3 * operatorPlaces {
		p := d.dial()
		p.say(get)
		if got := p.hearHTTP(); got != "200 GET /a" {
			t.Fatal(got)
		}
	}
	d.operator()
	for _, p := range open {
		p.say(get)
		if got := p.hearHTTP(); got != "200 GET /a" {
			t.Fatal(got)
		}
	}
}

// A server that waits for the end of a request's head decides how long it may take.
func TestARequestThatStaysUnfinished(t *testing.T) {
	w := new(site)
	w.ReadHeaderTimeout = time.Millisecond
	d := start(t, kerneltest.Around(t, nil, introspect.Module), nil, w.serve(t))
	p := d.dial()
	p.say("G")
	if answer, err := io.ReadAll(p.lines); err != nil || strings.Contains(string(answer), "200") || w.requests.Load() != 0 {
		t.Errorf("it ends with %q, %v", answer, err)
	}
}

// Without a server of HTTP, everything is lines.
func TestAServerWithoutHTTP(t *testing.T) {
	p := start(t, kerneltest.Around(t, nil, introspect.Module), nil).dial()
	p.say("GET / HTTP/1.1\n" + ping("1"))
	p.want(" 400", pong("1"))
}

func TestHTTPIsForTheOwner(t *testing.T) {
	for name, peer := range map[string]func(*net.UnixConn) (int, error){
		"another user":    func(*net.UnixConn) (int, error) { return os.Geteuid() + 1, nil },
		"an unknown user": func(*net.UnixConn) (int, error) { return os.Geteuid(), errors.New("it isn't known") },
	} {
		w := new(site)
		d := start(t, kerneltest.Around(t, nil, introspect.Module), nil, w.serve(t), func(s *Server) { s.peer = peer })
		c, err := net.Dial("unix", d.path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, get)
		answer, _ := bufio.NewReader(c).ReadString('\n')
		_ = c.Close()
		if testkit.Brief(t, answer) != "disconnected 403" || w.requests.Load() != 0 || d.s.Stats().Refused[refusedForeign] != 1 {
			t.Errorf("%s: %s", name, answer)
		}
	}
}

// With keys, HTTP begins after the signature, and nowhere else.
func TestHTTPIsSigned(t *testing.T) {
	key := newEd25519(t)
	w := new(site)
	d := startAt(t, shortDir(t)+"/s", Info{Auth: true}, kerneltest.Around(t, nil, introspect.Module), &Options{Keys: []ssh.PublicKey{key.public}}, w.serve(t))
	for name, dial := range map[string]func(*Dialer) (*Conn, error){
		"HTTP":  func(s *Dialer) (*Conn, error) { return s.DialHTTP(t.Context(), d.path) },
		"lines": func(s *Dialer) (*Conn, error) { return s.Dial(t.Context(), d.path) },
	} {
		c, err := dial(&Dialer{Signer: key.sign})
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, c)
		if name == "lines" {
			p.say(ping("1") + get)
			p.want(pong("1"), " 400")
		} else {
			p.say(get)
			if got := p.hearHTTP(); got != "200 GET /a" {
				t.Errorf("signed: %s", got)
			}
		}
		_ = c.Close()
	}
	c, err := (&Dialer{Signer: newEd25519(t).sign}).DialHTTP(t.Context(), d.path)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, get)
	if n, err := io.Copy(io.Discard, c); n != 0 {
		t.Errorf("signed by another key: %d bytes, %v", n, err)
	}
	_ = c.Close()
	_, err = (&Dialer{Signer: func([]byte) ([]byte, error) { return nil, errors.New("no key") }}).DialHTTP(t.Context(), d.path)
	if _, ok := errors.AsType[*NotSigned](err); !ok {
		t.Errorf("without a key: %v", err)
	}

	// A client by hand gets the challenge, whatever it sends.
	byHand := func(first func(challenge message.Message) string) (answer string) {
		t.Helper()
		c, err := net.Dial("unix", d.path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		line, err := in.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		challenge, err := message.Decode(line)
		if err != nil || challenge.Type != authenticate {
			t.Fatalf("it begins with %s", line)
		}
		_, _ = io.WriteString(c, first(challenge))
		rest, _ := io.ReadAll(io.LimitReader(in, int64(len("HTTP/1.1 200"))))
		return string(rest)
	}
	for _, text := range []string{get, "\n" + get, strings.Repeat("X", message.MaxLine+2) + "\n" + get} {
		if answer := byHand(func(message.Message) string { return text }); answer != "" {
			t.Errorf("%.20q is answered with %s", text, answer)
		}
	}
	answer := byHand(func(m message.Message) string {
		_, challenge, err := readChallenge(append(message.Append(nil, &m), '\n'))
		if err != nil {
			t.Fatal(err)
		}
		signature, _ := key.sign(challenge)
		data, _ := json.Marshal(answerData{signature})
		reply := m.Reply(data)
		stamp(&reply)
		return string(message.Append(nil, &reply)) + "\n" + get
	})
	if answer != "HTTP/1.1 200" {
		t.Errorf("signature and request in one write: %q", answer)
	}
	if n := w.requests.Load(); n != 2 {
		t.Errorf("%d requests came", n)
	}
	testkit.Until(t, "they are counted", func() bool { return d.s.Stats().Refused[refusedUnauthenticated] == 5 })
}

// When the server of HTTP has stopped, its connections end.
func TestHTTPThatHasStopped(t *testing.T) {
	w := new(site)
	d := start(t, kerneltest.Around(t, nil, introspect.Module), nil, w.serve(t))
	waits := d.dial()
	_ = w.Close()
	waits.say(get)
	waits.want("EOF")
	late := d.dial()
	d.stop()
	late.want("disconnected 503", "EOF")
	if err := d.ended(); err != nil {
		t.Error(err)
	}
	if s := d.s.Stats(); s.Connections != 0 || s.Refused[transport.TooMany] != 0 {
		t.Errorf("got %+v", s)
	}
}
