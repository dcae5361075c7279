package http_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"kernos/capability/http"
	"kernos/internal/outbound"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

func TestEveryStatusIsAReply(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			_, _ = fmt.Fprintf(w, "this is %d", status)
		}
	})
	w := newWorld(t, http.Options{})
	for status := 200; status < 600; status++ {
		want := fmt.Sprintf("this is %d", status)
		if status == 204 || status == 304 {
			want = ""
		}
		a := w.fetch(t, in{"url": fmt.Sprintf("%s/%d", url, status)})
		if a.Status != status || a.Body == nil || *a.Body != want {
			t.Errorf("%d: got %s", status, a.text)
		}
	}
}

func TestWhatTheServerSees(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s %d %q", r.Method, r.URL, r.Host, r.ContentLength, body)
		for _, name := range []string{"Accept-Encoding", "Authorization", "Content-Type", "Cookie", "User-Agent", "X-List", "X-Number"} {
			for _, v := range r.Header[name] {
				_, _ = fmt.Fprintf(w, "\n%s: %s", name, v)
			}
		}
	})
	w := newWorld(t, http.Options{})
	host := strings.TrimPrefix(url, "http://")
	const ours = "\nAccept-Encoding: gzip, zstd"
	const agent = "\nUser-Agent: Kernos"
	for _, c := range []struct {
		input in
		want  string
	}{
		{in{"url": url}, `GET / ` + host + ` 0 ""` + ours + agent},
		{in{"url": url + "/a%20b?q=1#part"}, `GET /a%20b?q=1 ` + host + ` 0 ""` + ours + agent},
		{in{"url": url, "body": "ignored"}, `GET / ` + host + ` 0 ""` + ours + agent},
		{in{"url": url, "method": "POST", "body": "hello"}, `POST / ` + host + ` 5 "hello"` + ours + "\nContent-Type: text/plain;charset=UTF-8" + agent},
		{in{"url": url, "method": "PUT", "body": ""}, `PUT / ` + host + ` 0 ""` + ours + agent},
		{in{"url": url, "method": "DELETE"}, `DELETE / ` + host + ` 0 ""` + ours + agent},
		{in{"url": url, "method": "PATCH", "body": "{}", "headers": in{"content-type": "application/json"}}, `PATCH / ` + host + ` 2 "{}"` + ours + "\nContent-Type: application/json" + agent},
		{in{"url": url, "headers": in{"x-list": []any{"a", 2, true}, "X-NUMBER": 1.5, "Cookie": "a=b", "user-agent": "Me", "accept-encoding": "identity"}},
			`GET / ` + host + ` 0 ""` + "\nAccept-Encoding: identity\nCookie: a=b\nUser-Agent: Me\nX-List: a\nX-List: 2\nX-List: true\nX-Number: 1.5"},
		{in{"url": url, "headers": in{"Host": "other.example:81"}}, `GET / other.example:81 0 ""` + ours + agent},
		{in{"url": strings.Replace(url, "//", "//ada:pass@", 1)}, `GET / ` + host + ` 0 ""` + ours + "\nAuthorization: Basic YWRhOnBhc3M=" + agent},
	} {
		if got := w.fetch(t, c.input).content(t); got != c.want {
			t.Errorf("%v:\n got %q\nwant %q", c.input, got, c.want)
		}
	}
}

func TestBothNames(t *testing.T) {
	w := newWorld(t, http.Options{})
	url := same(t, "text/plain", "hello")
	for _, name := range []message.Type{"Http.Fetch", "Network.Fetch"} {
		m := w.send(t, name, `{"url":"`+url+`"}`)
		if m.content(t) != "hello" {
			t.Errorf("%s: got %s", name, m.text)
		}
	}
}

func TestInputThatIsRefused(t *testing.T) {
	var requests atomic.Int64
	url := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { requests.Add(1) })
	w := newWorld(t, http.Options{})
	for _, c := range []struct {
		input in
		code  int
		words string
	}{
		{in{}, 422, "url"},
		{in{"url": 1}, 422, "url"},
		{in{"url": url, "retries": 1}, 422, "retries"},
		{in{"url": url, "method": "HEAD"}, 422, "method"},
		{in{"url": url, "method": "get"}, 422, "method"},
		{in{"url": url, "method": "POST"}, 422, "body"},
		{in{"url": url, "method": "PUT"}, 422, "body"},
		{in{"url": url, "body": in{}}, 422, "body"},
		{in{"url": url, "headers": "Authorization: Bearer hunter2"}, 422, "headers"},
		{in{"url": url, "headers": in{"X": nil}}, 422, "header X must be a string"},
		{in{"url": url, "headers": in{"X": in{}}}, 422, "header X must be a string"},
		{in{"url": url, "headers": in{"X": []any{[]any{"hunter2"}}}}, 422, "header X must be a string"},
		{in{"url": url, "headers": in{"X": "hunter2\r\nEvil: 1"}}, 422, "control character"},
		{in{"url": url, "headers": in{"X": "hunter2\x00"}}, 422, "control character"},
		{in{"url": url, "headers": in{"": "x"}}, 422, "not the name of a header"},
		{in{"url": url, "headers": in{"a b": "x"}}, 422, "not the name of a header"},
		{in{"url": url, "headers": in{"é": "x"}}, 422, "not the name of a header"},
		{in{"url": url, "headers": in{"content-length": "5"}}, 422, "Content-Length is set by the kernel"},
		{in{"url": url, "headers": in{"Transfer-Encoding": "chunked"}}, 422, "set by the kernel"},
		{in{"url": url, "headers": in{"Upgrade": "websocket"}}, 422, "set by the kernel"},
		{in{"url": url, "headers": in{"Host": "a/b"}}, 422, "Host"},
		{in{"url": url, "headers": in{"Host": []string{"a", "b"}}}, 422, "Host"},
		{in{"url": url, "timeout": 0}, 422, "timeout must be more than 0"},
		{in{"url": url, "timeout": -1}, 422, "timeout"},
		{in{"url": url, "timeout": 30001}, 422, "at most 30000"},
		{in{"url": url, "timeout": 1e300}, 422, "timeout"},
		{in{"url": url, "timeout": "5000"}, 422, "timeout"},
		{in{"url": ""}, 400, "no scheme"},
		{in{"url": "example.com"}, 400, "no scheme"},
		{in{"url": "/path"}, 400, "no scheme"},
		{in{"url": "//example.com/"}, 400, "no scheme"},
		{in{"url": "ftp://example.com/"}, 400, "got ftp"},
		{in{"url": "file:///etc/passwd"}, 400, "got file"},
		{in{"url": "javascript:alert(1)"}, 400, "got javascript"},
		{in{"url": "http://"}, 400, "no host"},
		{in{"url": "http:///path"}, 400, "no host"},
		{in{"url": "http:path"}, 400, "no host"},
		{in{"url": "http://:80/"}, 400, "no host"},
		{in{"url": "http://a:0/"}, 400, "port"},
		{in{"url": "http://a:65536/"}, 400, "port"},
		{in{"url": "http://a:b/"}, 400, "parsed"},
		{in{"url": "http://[::1/"}, 400, "parsed"},
		{in{"url": "http://a b/"}, 400, "parsed"},
		{in{"url": "http://a/%zz"}, 400, "parsed"},
		{in{"url": "http://a/\n"}, 400, "parsed"},
		{in{"url": "http://ada:hunter2%zz@a/"}, 400, "parsed"},
	} {
		a := w.fetch(t, c.input)
		whole := a.text
		if a.Code != c.code || !strings.Contains(whole, c.words) {
			t.Errorf("%v: got %s\nwant %d with %q", c.input, whole, c.code, c.words)
		}
		if c.code == 400 && a.Cause == nil {
			t.Errorf("%v: no cause: %s", c.input, whole)
		}
		if strings.Contains(whole, "hunter2") {
			t.Errorf("%v: a secret is quoted: %s", c.input, whole)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestHeadersAreFlat(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		h := w.Header()
		h["X-Several"] = []string{"a", "b, c"}
		h["Set-Cookie"] = []string{"a=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT", "b=2"}
		h["X-Latin"] = []string{"caf\xe9"}
		h["X-Unicode"] = []string{"café"}
		h["X-Empty"] = []string{""}
		h["Date"] = nil
		h["Content-Type"] = []string{"text/plain"}
	})
	a := newWorld(t, http.Options{}).fetch(t, in{"url": url})
	want := `{"status":200,"headers":{"content-length":"0","content-type":"text/plain",` +
		`"set-cookie":"a=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT\nb=2","x-empty":"","x-latin":"café","x-several":"a, b, c","x-unicode":"café"},"body":""}`
	if a.text != want {
		t.Errorf("got  %s\nwant %s", a.text, want)
	}
}

// refused returns an address on loopback at which nothing listens until the test has ended: no other
// server can take it meanwhile.
func refused(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port))
}

func TestNetworkFailures(t *testing.T) {
	silent := "http://" + refused(t)
	plain := same(t, "text/plain", "hello")
	w := newWorld(t, http.Options{})
	for _, c := range []struct {
		url   string
		code  int
		words string
	}{
		{silent, 502, "Nothing listens there"},
		{silent + "/path?token=hunter2", 502, "Fetch failed: GET " + silent + "/path: "},
		{strings.Replace(plain, "http:", "https:", 1), 502, "does not speak TLS"},
		{raw(t, "not HTTP at all\r\n\r\n"), 502, "isn't HTTP"},
		{raw(t, ""), 502, "ended before the server had answered"},
		{raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), 502, "ended while the body was coming"},
		{raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"+strings.Repeat("x", 5000)), 502, "ended while the body was coming"},
		{raw(t, "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), 502, "isn't HTTP"},
		{raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), 502, "isn't HTTP"},
		{raw(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"), 502, "could not be read"},
		{raw(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"), 502, "ended while the body was coming"},
		{raw(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", outbound.MaxHeaderBytes)+"\r\n\r\n"), 502, "isn't HTTP"},
		{raw(t, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), 502, "protocol"},
		{raw(t, "HTTP/1.1 302 Found\r\nLocation: http://%zz/\r\nContent-Length: 0\r\n\r\n"), 502, "Location"},
	} {
		a := w.fetch(t, in{"url": c.url})
		a.wantError(t, c.code, c.words)
		if strings.Contains(a.text, "hunter2") {
			t.Errorf("the query is quoted: %s", a.text)
		}
	}
	if kept := w.files(t); len(kept) != 0 {
		t.Errorf("parts of bodies are kept: %q", kept)
	}
}

// raw is a server that answers every connection with these bytes, and closes it.
func raw(t testing.TB, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := nethttp.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, answer)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func TestAnswersThatAreOddAndFine(t *testing.T) {
	w := newWorld(t, http.Options{})
	for name, c := range map[string]struct{ answer, want string }{
		"1xx first":                      {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi"},
		"more than announced":            {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi there", "hi"},
		"chunked":                        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", "hi"},
		"until the end":                  {"HTTP/1.0 200 OK\r\n\r\nhi", "hi"},
		"no reason":                      {"HTTP/1.1 299\r\nContent-Length: 2\r\n\r\nhi", "hi"},
		"304 with a length":              {"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\nContent-Encoding: gzip\r\n\r\n", ""},
		"redirect to nowhere":            {"HTTP/1.1 302 Found\r\nContent-Length: 2\r\n\r\nhi", "hi"},
		"redirect to an app":             {"HTTP/1.1 302 Found\r\nLocation: myapp://callback?code=1\r\nContent-Length: 2\r\n\r\nhi", "hi"},
		"a coding that wasn't asked for": {"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nhi", "hi"},
	} {
		a := w.fetch(t, in{"url": raw(t, c.answer)})
		if got := a.content(t); got != c.want {
			t.Errorf("%s: got %s", name, a.text)
		}
		if name == "redirect to an app" && (a.Status != 302 || a.Headers["location"] != "myapp://callback?code=1") {
			t.Errorf("%s: got %s", name, a.text)
		}
		if name == "304 with a length" && (a.Headers["content-length"] != "100" || a.Headers["content-encoding"] != "gzip") {
			t.Errorf("%s: got %s", name, a.text)
		}
	}
}

func TestServersThatAreSlow(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch r.URL.Path {
		case "/body":
			_, _ = io.WriteString(w, "the first half")
			w.(nethttp.Flusher).Flush()
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
			w.(nethttp.Flusher).Flush()
		case "/redirect":
			nethttp.Redirect(w, r, "/headers", nethttp.StatusFound)
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	w := newWorld(t, http.Options{Retries: 3})
	for path, words := range map[string]string{
		"/headers": "before the server had answered", "/redirect": "before the server had answered",
		"/body": "while the body was coming", "/large": "while the body was coming",
	} {
		a := w.fetch(t, in{"url": url + path, "timeout": 50})
		// A busy machine may take longer than that to send the first half.
		for timeout := 100; strings.HasPrefix(words, "while") && strings.Contains(a.text, "before the server had answered") && timeout < 30000; timeout *= 2 {
			a = w.fetch(t, in{"url": url + path, "timeout": timeout})
		}
		a.wantError(t, 504, words)
	}
	if kept := w.files(t); len(kept) != 0 {
		t.Errorf("parts of bodies are kept: %q", kept)
	}
}

func TestFetchThatIsCancelledEnds(t *testing.T) {
	arrived := make(chan struct{})
	url := serve(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	w := newWorld(t, http.Options{Retries: 3})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	w.k.Handle(ctx, message.Message{
		Kind: message.KindCommand, Type: "Http.Fetch", Data: []byte(`{"url":"` + url + `","timeout":30000}`), Metadata: message.Metadata{ID: "f", Timestamp: 1},
	}, func(m message.Message) {
		if e, err := message.ParseError(m.Data); err != nil || e.Code != 499 {
			t.Errorf("got %s", m.Data)
		}
	})
}

func TestPolicyRefuses(t *testing.T) {
	var requests atomic.Int64
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		requests.Add(1)
		nethttp.Redirect(w, r, r.URL.Query().Get("to"), nethttp.StatusTemporaryRedirect)
	})
	open := newWorld(t, http.Options{Retries: 1})
	for _, target := range []string{"http://169.254.169.254/latest/meta-data/", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/", "http://0.0.0.0:1/"} {
		open.fetch(t, in{"url": target}).wantError(t, 403, "Operation not allowed")
		open.fetch(t, in{"url": url + "/?to=" + target}).wantError(t, 403, "not allowed here")
	}
	requests.Store(0)
	closed := newWorld(t, http.Options{Client: outbound.NewClient(outbound.Policy{}, nil)})
	for _, target := range []string{url, "http://10.0.0.1/", "http://192.168.0.1/", "http://[::1]/", "http://[fd12::1]/"} {
		closed.fetch(t, in{"url": target}).wantError(t, 403, "Operation not allowed")
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestRetriesOnlyWhatMayBeRepeated(t *testing.T) {
	var requests atomic.Int64
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1)%3 != 0 {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "cut off")
			w.(nethttp.Flusher).Flush()
			panic(nethttp.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "whole")
	})
	for _, method := range []string{"GET", "PUT", "DELETE", "POST", "PATCH"} {
		for _, asked := range []int{0, 1, 2} {
			requests.Store(0)
			a := newWorld(t, http.Options{Retries: asked}).fetch(t, in{"url": url, "method": method, "body": "x"})
			repeated := slices.Contains([]string{"GET", "PUT", "DELETE"}, method)
			want := int64(1)
			if repeated {
				want += int64(asked)
			}
			if n := requests.Load(); n != want {
				t.Errorf("%s with %d retries: %d requests, want %d", method, asked, n, want)
			}
			if ok := a.Code == 0; ok != (repeated && asked == 2) {
				t.Errorf("%s with %d retries: got %s", method, asked, a.text)
			}
		}
	}
}

// Where a fetch is stood in for by an example of its reply, it has succeeded.
func TestTheExampleOfAReplyIsASuccess(t *testing.T) {
	fetch, ok := kerneltest.Of(t, nil, http.Module(http.Options{})).Registry().Lookup("Http.Fetch")
	if !ok {
		t.Fatal("there is no Http.Fetch")
	}
	if example, ok := schema.ExampleOf(fetch.Output); !ok || string(example) != `{"status":200}` {
		t.Errorf("got %s, %t", example, ok)
	}
}
