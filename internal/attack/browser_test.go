package attack

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// A browser has a key that was enrolled by a link, as the page of the console makes it.
type browser struct {
	w       *world
	key     *ecdsa.PrivateKey
	public  []byte
	name    string // of its token
	refusal outcome
}

// browser opens a link.
func (w *world) browser(link string) *browser {
	w.t.Helper()
	b := &browser{w: w}
	var err error
	if b.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		w.t.Fatal(err)
	}
	if b.public, err = b.key.PublicKey.Bytes(); err != nil {
		w.t.Fatal(err)
	}
	_, code, _ := strings.Cut(link, "#enter=")
	challenge := w.challenge()
	body, err := json.Marshal(map[string]any{
		"code": code, "key": b.public, "challenge": challenge, "signature": b.sign(w.origin(), "POST /console/enrol", challenge),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	status, answer := w.knock("POST", "/console/enrol", string(body), "Origin", w.origin())
	var a struct{ Name, Message string }
	if err := json.Unmarshal(answer, &a); err != nil {
		w.t.Fatal(err)
	}
	b.name = a.Name
	if status != 200 {
		b.refusal = outcome{code: status, text: a.Message}
	}
	return b
}

// link makes a link into the console.
func (w *world) consoleLink(owner bool) string {
	w.t.Helper()
	var made struct{ URL string }
	w.must("Kernel.Console", fmt.Sprintf(`{"owner":%t}`, owner), &made)
	return made.URL
}

func (w *world) origin() string { return "http://" + w.address }

// challenge asks for a challenge, as anyone can.
func (w *world) challenge() string {
	w.t.Helper()
	_, answer := w.knock("GET", "/console/challenge", "")
	var c struct{ Challenge string }
	if err := json.Unmarshal(answer, &c); err != nil || c.Challenge == "" {
		w.t.Fatalf("%s: %v", answer, err)
	}
	return c.Challenge
}

// knock sends a request with headers, and returns the status and the body.
func (w *world) knock(method, path, body string, headers ...string) (int, []byte) {
	w.t.Helper()
	answer := w.send(method, path, body, headers...)
	if answer.StatusCode == http.StatusSwitchingProtocols { // its body has no end
		_ = answer.Body.Close()
		return answer.StatusCode, nil
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, text
}

func (w *world) send(method, path, body string, headers ...string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.origin()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for h := range slices.Chunk(headers, 2) {
		if r.Header.Add(h[0], h[1]); h[0] == "Host" {
			r.Host = h[1]
		}
	}
	answer, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer
}

func (b *browser) sign(origin, purpose, challenge string) []byte {
	hash := sha256.Sum256([]byte("kernos-console:v1\n" + origin + "\n" + purpose + "\n" + challenge))
	r, s, err := ecdsa.Sign(rand.Reader, b.key, hash[:])
	if err != nil {
		b.w.t.Fatal(err)
	}
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
}

// proof is what the browser sends for one purpose, at an origin.
func (b *browser) proof(origin, purpose string) string {
	challenge := b.w.challenge()
	return b.name + "." + challenge + "." + base64.RawURLEncoding.EncodeToString(b.sign(origin, purpose, challenge))
}

// get asks for a path with a new proof.
func (b *browser) get(path string) (int, []byte) {
	b.w.t.Helper()
	return b.w.knock("GET", path, "", "Authorization", "Kernos-Key "+b.proof(b.w.origin(), "GET "+path))
}

// dial connects with a new proof, or returns the status of the refusal.
func (b *browser) dial() (*websocket.Conn, int) {
	b.w.t.Helper()
	return b.w.dialBy(b.w.origin(), "kernos.key."+b.proof(b.w.origin(), "GET /ws"))
}

func (w *world) dialBy(origin string, protocols ...string) (*websocket.Conn, int) {
	w.t.Helper()
	conn, answer, err := websocket.Dial(w.t.Context(), "ws://"+w.address+"/ws", &websocket.DialOptions{
		HTTPClient: w.client, Subprotocols: append([]string{"kernos"}, protocols...), HTTPHeader: http.Header{"Origin": {origin}},
	})
	if err != nil {
		if answer == nil {
			w.t.Fatal(err)
		}
		return nil, answer.StatusCode
	}
	return conn, 0
}

// call calls a method of JSON-RPC on a connection.
func (w *world) callOn(conn *websocket.Conn, method, params string) outcome {
	w.t.Helper()
	frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	if err := conn.Write(w.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		w.t.Fatal(err)
	}
	found := outcome{code: -1, text: "no answer"}
	for {
		_, text, err := conn.Read(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		var f struct {
			Params struct {
				Result struct {
					Type, Error string
					Code        int
					Data        json.RawMessage
				}
			}
			Error *struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(text, &f); err != nil {
			w.t.Fatal(err)
		}
		switch item := f.Params.Result; {
		case f.Error != nil:
			return outcome{code: f.Error.Code, text: f.Error.Message}
		case item.Type == "data":
			found = outcome{data: item.Data}
		case item.Type == "error":
			found = outcome{code: item.Code, text: item.Error}
		case item.Type == "done":
			return found
		}
	}
}

// doors are the places at which a caller with a secret is let in: a method, a path and a body.
var doors = [][3]string{
	{"POST", "/v1/call/memory/set", body},
	{"POST", "/v1/messages", `{"kind":"command","type":"Memory.Set","data":` + body + `,"metadata":{"id":"1","timestamp":1}}` + "\n"},
	{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`},
	{"GET", "/openrpc.json", ""},
	{"GET", "/openapi.json", ""},
	{"GET", "/llms.txt", ""},
	{"GET", "/docs/README.md", ""},
	{"GET", "/metrics", ""},
	{"GET", "/console/who", ""},
	{"POST", "/console/leave", ""},
	{"GET", "/v1/blobs/" + strings.Repeat("0", 64), ""},
	{"DELETE", "/v1/streams/x", ""},
	{"GET", "/ws", ""},
}

// shut checks that headers open none of the doors, whatever page they claim to come from.
func (w *world) shut(about string, headers ...string) {
	w.t.Helper()
	for _, page := range [][]string{nil, {"Origin", w.origin()}, {"Origin", w.origin(), "Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}} {
		for _, door := range doors {
			sent := slices.Concat(headers, page, []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"})
			if door[1] == "/ws" {
				sent = append(sent, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
			}
			if status, answer := w.knock(door[0], door[1], door[2], sent...); status != 401 {
				w.t.Errorf("%s, sent by %q, at %s: %d %s", about, page, door[1], status, answer)
			}
		}
	}
	if got := w.owner("Memory.Get", `{"key":"door"}`); got.code != 404 {
		w.t.Errorf("%s: a value was stored: %v", about, got)
		w.must("Memory.Delete", `{"key":"door"}`, nil)
	}
}

// A cookie opens nothing, nor does what an earlier version kept in one, wherever it is sent. Browsers are told to drop it.
func TestCookiesOpenNothing(t *testing.T) {
	w := open(t)
	const name, secret = "console-abcdefgh", "kernos_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	hash := sha256.Sum256([]byte(secret))
	var b store.Batch // as version 0.18.0 has stored it
	b.Set(append([]byte{store.SpaceTokens}, name...), fmt.Appendf(nil, `{"id":"01JZZZZZZZZZZZZZZZZZZZZZZZ","name":%q,"hash":%q,"created":%d,"grant":{"preset":"console","expires":%d}}`,
		name, base64.StdEncoding.EncodeToString(hash[:]), w.clock.Now().UnixMilli(), w.clock.Now().Add(30*24*time.Hour).UnixMilli()))
	if _, err := w.d.Store().Apply(&b); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(w.d.Home().State()))
	cookie := "kernos-" + hex.EncodeToString(sum[:4])
	w.shut("the cookie", "Cookie", cookie+"="+secret)
	w.shut("the cookie's secret as a bearer", "Authorization", "Bearer "+secret)
	w.shut("the cookie's secret as a protocol", "Sec-WebSocket-Protocol", "kernos, kernos.token."+secret)
	w.shut("the cookie's secret as a proof", "Authorization", "Kernos-Key "+name+"."+secret+"."+secret)
	w.shut("the cookie of a token that holds", "Cookie", cookie+"="+w.token("holds", ""))
	w.shut("the cookie of the default token", "Cookie", cookie+"="+w.defaultToken())
	answer := w.send("GET", "/", "", "Accept", "text/html", "Cookie", cookie+"="+secret)
	_ = answer.Body.Close()
	if got := answer.Cookies(); answer.StatusCode != 200 || len(got) != 1 || got[0].Name != cookie || got[0].Value != "" || got[0].MaxAge >= 0 {
		t.Errorf("the cookie is answered with %d and %v", answer.StatusCode, got)
	}
	if got := w.owner("Token.Show", `{"name":"`+name+`"}`); !strings.Contains(got.String(), `"cookie":true`) {
		t.Errorf("the owner is shown %v", got)
	}
	if got := w.owner("Token.Create", `{"name":"console-hgfedcba","preset":"console"}`); got.code != 422 {
		t.Errorf("a token with the name of a browser: %v", got)
	}
	if got := w.owner("Token.Update", fmt.Sprintf(`{"name":%q,"expires":%d}`, name, w.clock.Now().Add(60*24*time.Hour).UnixMilli())); got.code != 409 || !strings.Contains(got.text, "kernos token revoke") {
		t.Errorf("the owner gives the cookie another end: %v", got)
	}
	w.shut("the cookie's secret as a bearer, after that", "Authorization", "Bearer "+secret)
	w.must("Token.Revoke", `{"name":"`+name+`"}`, nil)
	if got := w.call(w.token("program", ""), "Memory.Get", `{"key":"door"}`); got.code != 404 {
		t.Errorf("a program with a token gets %v", got)
	}
}

// A browser is known by a key: what it sends is good for one request, at one address, and what is stored of it opens nothing.
func TestKeysOfBrowsers(t *testing.T) {
	w := open(t)
	link := w.consoleLink(false)
	if _, code, _ := strings.Cut(link, "#enter="); code == "" || strings.Contains(strings.TrimSuffix(link, code), code) || strings.ContainsAny(link, "?") {
		t.Errorf("the code isn't in the fragment of %s", link)
	}
	b := w.browser(link)
	if b.refusal.code != 0 {
		t.Fatal(b.refusal)
	}
	if thief := w.browser(link); thief.refusal.code != 403 || !strings.Contains(thief.refusal.text, "used already") || !strings.Contains(thief.refusal.text, "kernos token revoke") {
		t.Errorf("a link that is used again: %v", thief.refusal)
	}
	if status, answer := b.get("/openrpc.json"); status != 200 {
		t.Fatalf("the browser gets %d %s", status, answer)
	}

	// What is known of the browser.
	var all json.RawMessage
	w.must("Token.List", `{}`, &all)
	for _, shown := range []string{`"browser":{`, `"origin":"` + w.origin() + `"`, `"used":`, b.name} {
		if !bytes.Contains(all, []byte(shown)) {
			t.Errorf("the list of tokens has no %s: %s", shown, all)
		}
	}
	hash := sha256.Sum256(b.public)
	for _, public := range []string{
		b.name, base64.StdEncoding.EncodeToString(b.public), base64.RawURLEncoding.EncodeToString(b.public), string(hex.EncodeToString(b.public)),
		hex.EncodeToString(hash[:]), b.name + "." + w.challenge() + ".", b.name + "." + w.challenge() + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)),
	} {
		w.shut("public data as a bearer", "Authorization", "Bearer "+public)
		w.shut("public data as a proof", "Authorization", "Kernos-Key "+public)
		w.shut("public data as a proof of a WebSocket", "Sec-WebSocket-Protocol", "kernos, kernos.key."+public)
		w.shut("public data as a cookie", "Cookie", "kernos="+public)
	}

	// Proofs that were made for something else.
	stranger := w.browser("#enter=AAAA")
	stranger.name = b.name
	other := open(t)
	w.shut("a proof by another key", "Authorization", "Kernos-Key "+stranger.proof(w.origin(), "GET /openrpc.json"))
	w.shut("a proof as a bearer", "Authorization", "Bearer "+b.proof(w.origin(), "GET /openrpc.json"))
	w.shut("a proof in an address", "X-Original-Url", "/?proof="+b.proof(w.origin(), "GET /openrpc.json"))
	other.shut("a proof at another port", "Authorization", "Kernos-Key "+b.proof(w.origin(), "GET /openrpc.json"))
	other.shut("a proof for another port", "Authorization", "Kernos-Key "+b.proof(other.origin(), "GET /openrpc.json"))
	_, port, _ := strings.Cut(w.address, ":")
	for _, host := range []string{"localhost:" + port, "127.0.0.2:" + port, "127.0.0.1:1", other.address} {
		for _, at := range []string{w.origin(), "http://" + host} {
			if status, _ := w.knock("GET", "/openrpc.json", "", "Host", host, "Authorization", "Kernos-Key "+b.proof(at, "GET /openrpc.json")); status != 401 && status != 403 {
				t.Errorf("a proof for %s is taken at %s: %d", at, host, status)
			}
		}
	}
	// A proof that was used, over each wire.
	used := b.proof(w.origin(), "GET /openrpc.json")
	for i, want := range []int{200, 401} {
		if status, _ := w.knock("GET", "/openrpc.json", "", "Authorization", "Kernos-Key "+used); status != want {
			t.Errorf("a proof gets %d, sent %d times", status, i+1)
		}
	}
	used = b.proof(w.origin(), "GET /ws")
	conn, _ := w.dialBy(w.origin(), "kernos.key."+used)
	if conn == nil {
		t.Fatal("the browser can't connect")
	}
	defer func() { _ = conn.CloseNow() }()
	if conn.Subprotocol() != "kernos" {
		t.Errorf("the protocol is %q", conn.Subprotocol())
	}
	if again, status := w.dialBy(w.origin(), "kernos.key."+used); again != nil || status != 401 {
		t.Errorf("a proof that was used opens a WebSocket: %d", status)
	}
	if again, status := w.dialBy("http://127.0.0.1:1", "kernos.key."+b.proof(w.origin(), "GET /ws")); again != nil || status != 403 {
		t.Errorf("a page of another port opens a WebSocket: %d", status)
	}
	late := b.proof(w.origin(), "GET /openrpc.json")
	w.clock.Advance(time.Minute)
	w.shut("a proof of a minute ago", "Authorization", "Kernos-Key "+late)

	// The browser is revoked.
	if got := w.callOn(conn, "memory_set", `{"key":"a","value":1}`); got.code != 0 {
		t.Fatal(got)
	}
	w.must("Token.Revoke", `{"name":"`+b.name+`"}`, nil)
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the connection of a browser that was revoked: %v", err)
	}
	if status, answer := b.get("/openrpc.json"); status != 401 || !bytes.Contains(answer, []byte("kernos console")) {
		t.Errorf("a browser that was revoked gets %d %s", status, answer)
	}
	expiring := w.browser(w.consoleLink(false))
	w.clock.Advance(30 * 24 * time.Hour)
	if status, answer := expiring.get("/openrpc.json"); status != 401 || !bytes.Contains(answer, []byte("kernos console")) {
		t.Errorf("a browser whose time is over gets %d %s", status, answer)
	}
}

// A link with the owner's rights is good for one browser, for an hour, and the records show that browser. Only a client of
// the owner makes links.
func TestTheOwnersBrowser(t *testing.T) {
	w := open(t)
	b, plain := w.browser(w.consoleLink(true)), w.browser(w.consoleLink(false))
	conn, _ := b.dial()
	if conn == nil {
		t.Fatal("the browser can't connect")
	}
	defer func() { _ = conn.CloseNow() }()
	if got := w.callOn(conn, "token_create", `{"name":"by-browser"}`); got.code != 0 {
		t.Errorf("the owner's browser creates a token: %v", got)
	}
	if got := w.callOn(conn, "kernel_console", `{"owner":true}`); got.code != 403 {
		t.Errorf("the owner's browser makes a link: %v", got)
	}
	var found struct {
		Records []struct{ Principal, Wire string }
	}
	for _, by := range []string{"owner", "owner@" + b.name} {
		w.must("Message.List", `{"records":true,"filter":"type:Token.Create kind:command by:`+by+`"}`, &found)
		if len(found.Records) != 1 || found.Records[0].Principal != "owner@"+b.name || found.Records[0].Wire != "ws" {
			t.Errorf("the records by %s are %+v", by, found.Records)
		}
	}

	// Other browsers see what is hidden from them, and why.
	var who struct {
		Browser struct {
			Owner  int64
			Hidden []struct{ Method, Why string }
		}
	}
	_, answer := plain.get("/console/who")
	if err := json.Unmarshal(answer, &who); err != nil || who.Browser.Owner != 0 {
		t.Fatalf("%s: %v", answer, err)
	}
	why := map[string]string{}
	for _, h := range who.Browser.Hidden {
		why[h.Method] = h.Why
	}
	if !strings.Contains(why["token.create"], "for the owner only") || !strings.Contains(why["crypto.open"], "preset console") || why["memory.get"] != "" || why["kernel.console"] != "" {
		t.Errorf("what is hidden is %v", why)
	}
	if _, answer := b.get("/console/who"); !bytes.Contains(answer, []byte(`"owner":`)) || !bytes.Contains(answer, []byte(`"hidden":[]`)) {
		t.Errorf("the owner's browser is %s", answer)
	}

	// What else asks for a link.
	w.must("Syscall.Register", `{"name":"Link.Make","kind":"command","inputSchema":{},"outputSchema":{},"code":"export const handler = () => kernos.call('Kernel.Console', {owner: true})"}`, nil)
	var chat struct{ Session string }
	w.must("Session.Create", `{"system":"-","policy":[{"match":"*","decide":"allow"}]}`, &chat)
	for about, got := range map[string]outcome{
		"a token":                    w.call(w.token("all", `"preset":"console","allow":["*"]`), "Kernel.Console", `{"owner":true}`),
		"code":                       w.owner("Link.Make", `{}`),
		"a session":                  w.by(kernel.From(nil, "").In(chat.Session), "Kernel.Console", "", `{"owner":true}`),
		"a session, by Syscall.Call": w.by(kernel.From(nil, "").In(chat.Session), "Syscall.Call", "", `{"type":"Kernel.Console","data":{"owner":true}}`),
		"what was caused":            w.by(kernel.From(nil, ""), "Kernel.Console", "another", `{"owner":true}`),
		"a job":                      w.byJob("Kernel.Console", `{"owner":true}`),
	} {
		if !strings.Contains(got.String(), "403") || strings.Contains(got.String(), "#enter=") {
			t.Errorf("%s makes a link: %v", about, got)
		}
	}

	// An hour later it is a console as others are, and reads nothing of what it has asked for as the owner.
	stream := w.openStream(conn, "message_watch", `{"filter":"type:Memory.Set"}`)
	w.anHourLater()
	var err error
	for err == nil { // what came before
		_, _, err = conn.Read(t.Context())
	}
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation || !strings.Contains(err.Error(), "kernos console --owner") {
		t.Errorf("the connection of a browser that acted for the owner: %v", err)
	}
	late, _ := b.dial()
	if late == nil {
		t.Fatal("the browser can't connect an hour later")
	}
	defer func() { _ = late.CloseNow() }()
	if got := w.callOn(late, "service_resume", fmt.Sprintf(`[%q,0]`, stream)); !strings.Contains(got.text, "no longer exists") {
		t.Errorf("an hour later, the browser reads a stream of the owner: %v", got)
	}
	if got := w.callOn(late, "token_list", `{}`); got.code == 0 {
		t.Errorf("an hour later, the browser lists tokens: %v", got)
	}
	if got := w.callOn(late, "memory_set", `{"key":"a","value":1}`); got.code != 0 {
		t.Errorf("an hour later, the browser can't write: %v", got)
	}
}

// openStream sends a call on a connection, and returns the id of its stream, which stays open.
func (w *world) openStream(conn *websocket.Conn, method, params string) (stream string) {
	w.t.Helper()
	if err := conn.Write(w.t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)); err != nil {
		w.t.Fatal(err)
	}
	for stream == "" {
		_, text, err := conn.Read(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		var f struct {
			Result string
			Error  json.RawMessage
		}
		if err := json.Unmarshal(text, &f); err != nil || f.Error != nil {
			w.t.Fatalf("%s: %s (%v)", method, text, err)
		}
		stream = f.Result
	}
	return stream
}

// by calls a syscall as a sender, which may name the cause of the request.
func (w *world) by(sender kernel.Sender, what message.Type, causation, data string) (found outcome) {
	w.t.Helper()
	m := message.Message{Kind: message.KindCommand, Type: what, Data: json.RawMessage(data), Metadata: message.Metadata{Causation: message.ID(causation)}}
	answer, err := w.d.Call(kernel.ActFor(w.t.Context(), sender), m, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if e := answer.Failure(); e != nil {
		return outcome{code: e.Code, text: e.Message}
	}
	return outcome{data: answer.Data}
}

// byJob lets a job of the owner make a call, and returns what came of it.
func (w *world) byJob(what message.Type, data string) outcome {
	w.t.Helper()
	var started struct{ JobID string }
	w.must("Job.Start", fmt.Sprintf(`{"name":%q,"payload":%s}`, what, data), &started)
	return w.owner("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.JobID))
}
