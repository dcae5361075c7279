package attack

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"kernos/internal/testkit"
)

// A knock is a request to the TCP door, as bytes. In all of them, HOST stands for the address,
// PORT for its port, and TOKEN for a secret that opens the door.
type knock struct {
	about string
	text  string
}

// body is what a request that comes in would do.
const body = `{"key":"door","value":1}`

// set is a request that is let in, with some headers instead of Host and Authorization.
func set(headers ...string) string { return to("POST /v1/call/memory/set HTTP/1.1", headers...) }

func to(line string, headers ...string) string {
	headers = append(headers, "Connection: close", fmt.Sprintf("Content-Length: %d", len(body)))
	return line + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body
}

// framed is a request of a caller that has a token, and whose body is framed by some headers.
func framed(headers, body string) string {
	return "POST /v1/call/memory/set HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer TOKEN\r\n" + headers + "\r\n\r\n" + body
}

// upgrade asks for a WebSocket.
func upgrade(headers ...string) string {
	return upgradeBy("GET /ws HTTP/1.1", append(headers, "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")...)
}

func upgradeBy(line string, headers ...string) string {
	return line + "\r\n" + strings.Join(append(headers, "Connection: Upgrade", "Upgrade: websocket"), "\r\n") + "\r\n\r\n"
}

const (
	ours    = "Host: HOST"
	entitle = "Authorization: Bearer TOKEN"
)

// hosts are names that are not ours: a page whose server renames itself to an address of this
// machine sends its own.
func hosts() (list []knock) {
	for _, host := range []string{
		"evil.example.net", "evil.example.net:PORT", "localhost.evil.example.net", "127.0.0.1.nip.io:PORT", "127.0.0.1.evil.example.net",
		"0.0.0.0:PORT", "[::]:PORT", "192.0.2.1", "10.0.0.1:PORT", "169.254.169.254", "[fe80::1]", "[::ffff:192.0.2.1]:PORT",
		"", "localhost@evil.example.net", "evil.example.net@localhost", "localhost,evil.example.net", "127.0.0.1:PORT, evil.example.net",
		"127.1:PORT", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1%00.evil.example.net", "localhost\tevil", "[::1", "[::1]evil", "::1::1",
		"localhost..", ".localhost", "xn--localhost-", "localhost/evil", "localhost\\evil", "*", ":PORT", "host.docker.internal:PORT",
	} {
		list = append(list, knock{fmt.Sprintf("Host %q", host), set("Host: "+host, entitle)})
	}
	return append(list,
		knock{"no Host", set(entitle)},
		knock{"two Hosts", set(ours, "Host: evil.example.net", entitle)},
		knock{"two Hosts, ours last", set("Host: evil.example.net", ours, entitle)},
		knock{"X-Forwarded-Host", set("Host: evil.example.net", "X-Forwarded-Host: HOST", entitle)},
		knock{"rebinding, of the same origin", set("Host: evil.example.net:PORT", "Origin: http://evil.example.net:PORT", "Sec-Fetch-Site: same-origin", entitle)},
		knock{"absolute form", to("POST http://evil.example.net/v1/call/memory/set HTTP/1.1", ours, entitle)},
		knock{"absolute form with a user", to("POST http://HOST@evil.example.net/v1/call/memory/set HTTP/1.1", ours, entitle)},
		knock{"HTTP/1.0 without a Host", to("POST /v1/call/memory/set HTTP/1.0", entitle)},
		knock{"health of another host", to("GET /healthz HTTP/1.1", "Host: evil.example.net")},
	)
}

// pages are requests that a browser sends for a page of another origin.
func pages() (list []knock) {
	for _, origin := range []string{
		"https://evil.example.net", "null", "http://127.0.0.1", "http://127.0.0.1:1", "https://HOST", "http://localhost:PORT", "http://[::1]:PORT",
		"http://HOST.evil.example.net", "http://HOST@evil.example.net", "http://evil.example.net@HOST", "http://evil.example.net#HOST", "http://evil.example.net?HOST",
		"file://", "chrome-extension://abcdefghijklmnop", "moz-extension://x", "http://HOST http://evil.example.net", "http://HOST, http://evil.example.net",
		"HTTP://EVIL.EXAMPLE.NET", "//HOST", "HOST", "javascript:alert(1)", "data:,x", "blob:http://HOST/x", "http://HOST/x", "http://", "*", "ws://HOST", "undefined",
	} {
		list = append(list, knock{fmt.Sprintf("Origin %q", origin), set(ours, "Origin: "+origin, entitle)})
	}
	return append(list,
		knock{"two Origins", set(ours, "Origin: http://HOST", "Origin: https://evil.example.net", entitle)},
		knock{"a form", set(ours, "Origin: https://evil.example.net", "Content-Type: text/plain", "Sec-Fetch-Mode: navigate", entitle)},
		knock{"an image", set(ours, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", entitle)},
		knock{"a neighbour", set(ours, "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", entitle)},
		knock{"a form without an origin", set(ours, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", entitle)},
		knock{"a preflight", to("OPTIONS /v1/call/memory/set HTTP/1.1", ours, "Origin: https://evil.example.net", "Access-Control-Request-Method: POST")},
		knock{"a private network preflight", to("OPTIONS /v1/call/memory/set HTTP/1.1", ours, "Origin: https://evil.example.net", "Access-Control-Request-Method: POST", "Access-Control-Request-Private-Network: true")},
	)
}

// misplaced are requests without the token, with something else, or with it in a wrong place.
func misplaced(token string) (list []knock) {
	hash := sha256.Sum256([]byte(token))
	for _, header := range []string{
		"X-Nothing: 1", "Authorization:", "Authorization: Bearer", "Authorization: Bearer ", "Authorization: TOKEN", "Authorization: BearerTOKEN", "Authorization: Bearer:TOKEN",
		"Authorization: Bearer\tTOKEN", "Authorization: Token TOKEN", "Authorization: Basic TOKEN", "Authorization: Digest TOKEN",
		"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("owner:"+token)),
		"Authorization: Bearer \"TOKEN\"", "Authorization: Bearer TOKENx", "Authorization: Bearer xTOKEN", "Authorization: Bearer TOKEN TOKEN", "Authorization: Bearer x, Bearer TOKEN",
		"Authorization: Bearer " + token[:len(token)-1], "Authorization: Bearer " + strings.ToUpper(token), "Authorization: Bearer " + strings.TrimPrefix(token, "kernos_"),
		"Authorization: Bearer " + hex.EncodeToString(hash[:]), "Authorization: Bearer " + base64.RawURLEncoding.EncodeToString(hash[:]),
		"Authorization: Bearer visitor", "Authorization: Bearer default", "Authorization: Bearer owner", "Authorization: Bearer *", "Authorization: Bearer null",
		"Authorization: Bearer x\r\nAuthorization: Bearer TOKEN", "Authorization : Bearer TOKEN", "X-Fold: 1\r\n Authorization: Bearer TOKEN", "Authorization: x\r\n Bearer TOKEN",
		"Authorization_: Bearer TOKEN", "Proxy-Authorization: Bearer TOKEN", "X-Authorization: Bearer TOKEN", "X-Forwarded-Authorization: Bearer TOKEN",
		"Cookie: token=TOKEN; Authorization=Bearer TOKEN", "X-Api-Key: TOKEN", "X-Auth-Token: TOKEN", "Sec-WebSocket-Protocol: TOKEN", "Sec-WebSocket-Protocol: kernos.TOKEN",
		"X-Forwarded-For: 127.0.0.1", "X-Forwarded-User: owner", "X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "Forwarded: for=127.0.0.1;by=owner", "Via: 1.1 unix",
	} {
		list = append(list, knock{header, set(ours, header)})
	}
	for _, target := range []string{
		"/v1/call/memory/set?token=TOKEN", "/v1/call/memory/set?access_token=TOKEN", "/v1/call/memory/set?Authorization=Bearer%20TOKEN", "/TOKEN/v1/call/memory/set",
		"http://TOKEN@HOST/v1/call/memory/set", "http://x:TOKEN@HOST/v1/call/memory/set", "/v1/call/memory/set;token=TOKEN",
		"/healthz/../v1/call/memory/set", "//healthz/../v1/call/memory/set", "/healthz%2f..%2fv1/call/memory/set", "/readyz/%2e%2e/v1/call/memory/set", "/v1/call/memory/set?/healthz", "/v1/call/memory/set/healthz",
		"/./v1/call/memory/set", "//v1/call/memory/set", "/V1/CALL/MEMORY/SET",
	} {
		list = append(list, knock{target, to("POST "+target+" HTTP/1.1", ours)})
	}
	return append(list,
		knock{"the token in a trailer", "POST /v1/call/memory/set HTTP/1.1\r\nHost: HOST\r\nTrailer: Authorization\r\nTransfer-Encoding: chunked\r\n\r\n18\r\n" + body + "\r\n0\r\nAuthorization: Bearer TOKEN\r\n\r\n"},
		knock{"bare line feeds", strings.ReplaceAll(set(ours), "\r\n", "\n")},
		knock{"the token behind a NUL", set(ours, "Authorization: Bearer \x00TOKEN")},
	)
}

// frames are requests of a holder of a token that two servers may take for different ones.
func frames() []knock {
	hidden := set(ours) // it has no token of its own
	return []knock{
		{"two lengths", framed("Content-Length: 24\r\nContent-Length: 5", body)},
		{"a list of lengths", framed("Content-Length: 24, 5", body)},
		{"a length with a sign", framed("Content-Length: +24", body)},
		{"a negative length", framed("Content-Length: -1", body)},
		{"a length in base 16", framed("Content-Length: 0x18", body)},
		{"a length with a space in it", framed("Content-Length: 2 4", body)},
		{"a length that is too large for a number", framed("Content-Length: 99999999999999999999", body)},
		{"an unknown coding", framed("Transfer-Encoding: xchunked", "18\r\n"+body+"\r\n0\r\n\r\n")},
		{"a coding behind another", framed("Transfer-Encoding: gzip, chunked", "18\r\n"+body+"\r\n0\r\n\r\n")},
		{"a coding before another", framed("Transfer-Encoding: chunked, identity", "18\r\n"+body+"\r\n0\r\n\r\n")},
		{"two codings", framed("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "18\r\n"+body+"\r\n0\r\n\r\n")},
		{"a coding with a vertical tab", framed("Transfer-Encoding: \x0bchunked", "18\r\n"+body+"\r\n0\r\n\r\n")},
		{"a space before a colon", framed("Transfer-Encoding : chunked", "18\r\n"+body+"\r\n0\r\n\r\n")},
		{"a line that is folded", framed(" Content-Length: 24", body)},
		{"a chunk with a sign", framed("Transfer-Encoding: chunked", "+18\r\n"+body+"\r\n0\r\n\r\n")},
		{"a chunk that is longer than it says", framed("Transfer-Encoding: chunked", "10\r\n"+body+"\r\n0\r\n\r\n")},
		{"a chunk that ends too early", framed("Transfer-Encoding: chunked", "18\r\n"+body)},
		{"a body that ends too early", framed("Content-Length: 25", body)},
		{"a header without a colon", framed("Content-Length: 24\r\nnonsense", body)},
		{"a header with a NUL", framed("Content-Length: 24\r\nX: \x00", body)},
		{"a header with a space in its name", framed("Content-Length: 24\r\nX Y: 1", body)},
		{"no length, and a request behind it", "POST /v1/call/memory/set HTTP/1.1\r\nHost: HOST\r\n\r\n" + hidden},
		{"CL.TE", "POST /v1/call/kernel/ping HTTP/1.1\r\nHost: HOST\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden},
		{"TE.CL", "POST /v1/call/kernel/ping HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5\r\n{    \r\n0\r\n\r\n" + hidden},
		{"a body for GET", "GET /metrics HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n" + hidden},
		{"a body that waits", "POST /v1/call/memory/set HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\nContent-Length: 24\r\n\r\n" + body},
		{"HTTP/0.9", "POST /v1/call/memory/set\r\n\r\n" + body},
		{"HTTP/2 by prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
		{"HTTP/2 by upgrade", set(ours, "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")},
		{"HTTP/9", to("POST /v1/call/memory/set HTTP/9.9", ours, entitle)},
		{"a method with a NUL", to("POST\x00 /v1/call/memory/set HTTP/1.1", ours, entitle)},
		{"CONNECT", "CONNECT evil.example.net:443 HTTP/1.1\r\nHost: evil.example.net:443\r\nAuthorization: Bearer TOKEN\r\n\r\n"},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: evil.example.net\r\n\r\n"},
		{"TRACE", to("TRACE /v1/call/memory/set HTTP/1.1", ours)},
		{"a method in lower case", to("post /v1/call/memory/set HTTP/1.1", ours, entitle)},
		{"GET instead of POST", to("GET /v1/call/memory/set HTTP/1.1", ours, entitle)},
		{"another method in a header", to("GET /v1/call/memory/set HTTP/1.1", ours, entitle, "X-HTTP-Method-Override: POST")},
		{"a header of 64 KB", set(ours, entitle, "X: "+strings.Repeat("x", 64<<10))},
		{"TLS", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"},
		{"the wire of the socket", `{"kind":"command","type":"Memory.Set","data":` + body + `,"metadata":{"id":"1","timestamp":1}}` + "\n"},
		{"nothing", ""},
		{"line feeds", strings.Repeat("\r\n", 1000)},
		{"zeros", strings.Repeat("\x00", 4096)},
	}
}

// sockets are requests for a WebSocket.
func sockets() []knock {
	by := func(line string, headers ...string) string { return upgradeBy(line, append(headers, ours, entitle)...) }
	const version, key = "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
	return []knock{
		{"a WebSocket without a token", upgrade(ours)},
		{"a WebSocket at /", upgradeBy("GET / HTTP/1.1", ours, version, key)},
		{"with the token in the address", upgradeBy("GET /ws?token=TOKEN HTTP/1.1", ours, version, key)},
		{"with the token as a protocol", upgrade(ours, "Sec-WebSocket-Protocol: TOKEN")},
		{"with a part of the protocol", upgrade(ours, "Sec-WebSocket-Protocol: kernos, token.TOKEN")},
		{"with an empty token", upgrade(ours, "Sec-WebSocket-Protocol: kernos, kernos.token.")},
		{"with the protocol in capitals", upgrade(ours, "Sec-WebSocket-Protocol: KERNOS.TOKEN.TOKEN")},
		{"with the token in a cookie", upgrade(ours, "Cookie: kernos.token=TOKEN")},
		{"with the token as an extension", upgrade(ours, "Sec-WebSocket-Extensions: kernos.token.TOKEN")},
		{"of another page", upgrade(ours, entitle, "Origin: https://evil.example.net")},
		{"of another page, by protocol", upgrade(ours, "Sec-WebSocket-Protocol: kernos, kernos.token.TOKEN", "Origin: https://evil.example.net")},
		{"of a sandbox", upgrade(ours, entitle, "Origin: null")},
		{"of a rebound page", upgrade("Host: evil.example.net", "Origin: http://evil.example.net", entitle)},
		{"of another page, without an origin", upgrade(ours, entitle, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: websocket")},
		{"of an old version", by("GET /ws HTTP/1.1", "Sec-WebSocket-Version: 8", key)},
		{"of no version", by("GET /ws HTTP/1.1", key)},
		{"without a key", by("GET /ws HTTP/1.1", version)},
		{"with a short key", by("GET /ws HTTP/1.1", version, "Sec-WebSocket-Key: AAAA")},
		{"by POST", by("POST /ws HTTP/1.1", version, key)},
		{"by HTTP/1.0", by("GET /ws HTTP/1.0", version, key)},
		{"in capitals", by("GET /WS HTTP/1.1", version, key)},
		{"at another path", by("GET /metrics/ws HTTP/1.1", version, key)},
		{"of health", upgradeBy("GET /healthz/ws HTTP/1.1", ours, version, key)},
		{"without Connection", "GET /ws HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer TOKEN\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"},
		{"to something else", "GET /ws HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer TOKEN\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"},
	}
}

// welcome are requests that are let in, or the others would prove nothing.
func welcome() []knock {
	return []knock{
		{"a program", set(ours, entitle)},
		{"a program, in chunks", framed("Transfer-Encoding: chunked\r\nConnection: close", "18\r\n"+body+"\r\n0\r\n\r\n")},
		{"our own page", set(ours, entitle, "Origin: http://HOST", "Sec-Fetch-Site: same-origin")},
		{"another name of ours", set("Host: localhost:PORT", entitle)},
		{"a WebSocket", upgrade(ours, entitle)},
		{"a WebSocket of our own page", upgrade(ours, "Origin: http://HOST", "Sec-WebSocket-Protocol: kernos, kernos.token.TOKEN")},
	}
}

// letIn is the first line of an answer that a caller who is let in gets.
var letIn = regexp.MustCompile(`(?m)^HTTP/1\.[01] (2\d\d|101) `)

// TestDoors sends what strangers, web pages and proxies send. None of it gets in, and none of it
// hangs.
func TestDoors(t *testing.T) {
	w := open(t)
	token := w.token("visitor", "")
	_, port, err := net.SplitHostPort(w.address)
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("HOST", w.address, "PORT", port, "KERNOS.TOKEN.TOKEN", "KERNOS.TOKEN."+token, "kernos.token.TOKEN", "kernos.token."+token, "TOKEN", token)
	try := func(k knock) (answer []byte, in bool) {
		t.Helper()
		conn, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(testkit.Patience / 2))
		_, _ = io.WriteString(conn, fill.Replace(k.text)) // what is refused early is not read to its end
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, err = io.ReadAll(conn)
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Errorf("%s: it hangs, after %q", k.about, answer)
		}
		in = letIn.Match(answer) || w.owner("Memory.Get", `{"key":"door"}`).code == 0
		_ = w.owner("Memory.Delete", `{"key":"door"}`)
		return answer, in
	}
	for _, k := range welcome() {
		if answer, in := try(k); !in {
			t.Errorf("%s is not let in: %s", k.about, answer)
		}
	}
	cases := 0
	for _, list := range [][]knock{hosts(), pages(), misplaced(token), frames(), sockets()} {
		for _, k := range list {
			cases++
			if answer, in := try(k); in {
				t.Errorf("%s is let in: %s", k.about, bytes.TrimSpace(answer))
			} else if bytes.Contains(answer, []byte(token)) {
				t.Errorf("%s: the answer has the token: %s", k.about, answer)
			}
		}
	}
	if cases < 85 {
		t.Errorf("%d cases", cases)
	}
	t.Logf("%d cases", cases)
}
