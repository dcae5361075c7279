package attack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/unix"
)

var long = flag.Bool("long", false, "attack at length")

func TestMain(m *testing.M) {
	if home := os.Getenv(aloneHome); home != "" {
		if err := serveAlone(home, os.Getenv(aloneFiles)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// times returns how often something is done: more often at length.
func times(usually, atLength int) int {
	if *long {
		return atLength
	}
	return usually
}

// A world is a daemon with all of its doors open.
type world struct {
	t       testing.TB
	d       *daemon.Daemon
	home    string
	address string // of the TCP door
	socket  string
	client  *http.Client
	clock   testkit.Clock
}

// open opens a world with default options.
func open(t testing.TB) *world {
	t.Helper()
	return openWith(t, &daemon.Options{})
}

// openWith opens a world; its home, doors and clock don't come from the options.
func openWith(t testing.TB, o *daemon.Options) *world {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Setenv("XDG_RUNTIME_DIR", testkit.ShortDir(t))
	}
	w := &world{t: t, home: t.TempDir(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	o.Home, o.Socket, o.Web, o.Now = w.home, &daemon.Socket{}, &daemon.Web{Address: "127.0.0.1:0"}, w.clock.Now
	d := daemontest.Serve(t, o)
	t.Cleanup(w.client.CloseIdleConnections)
	w.d, w.address = d.Daemon, d.Address
	var err error
	if w.socket, err = d.Home().Socket(); err != nil {
		t.Fatal(err)
	}
	return w
}

// An outcome is what a call came to: the data of a reply, or an error.
type outcome struct {
	code int // of an error, or of a refusal by the door; 0 for a reply
	text string
	data json.RawMessage
}

// forbids reports whether the outcome is that the caller may not call a syscall. A syscall that
// it may call can fail with a 403 too, such as one that calls another.
func (o outcome) forbids(what message.Type) bool {
	return o.code == 403 && strings.Contains(o.text, fmt.Sprintf("may not call %s: ", what))
}

func (o outcome) String() string {
	if o.code == 0 {
		return string(o.data)
	}
	return fmt.Sprintf("%d %s", o.code, o.text)
}

// owner calls a syscall as the owner, in this process.
func (w *world) owner(what message.Type, data string) outcome {
	w.t.Helper()
	m := message.Message{Kind: message.KindCommand, Type: what, Data: json.RawMessage(data)}
	answer, err := w.d.Call(w.t.Context(), m, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if answer.Err != nil {
		return outcome{code: answer.Err.Code, text: answer.Err.Message}
	}
	return outcome{data: answer.Data}
}

// must is owner for a call that succeeds; its reply is read into out, unless that is nil.
func (w *world) must(what message.Type, data string, out any) {
	w.t.Helper()
	o := w.owner(what, data)
	if o.code != 0 {
		w.t.Fatalf("%s %s: %v", what, data, o)
	}
	if out != nil {
		if err := json.Unmarshal(o.data, out); err != nil {
			w.t.Fatal(err)
		}
	}
}

// token creates a token with a grant, in JSON, and returns its secret.
func (w *world) token(name, grant string) string {
	w.t.Helper()
	var made struct{ Token string }
	w.must("Token.Create", fmt.Sprintf(`{"name":%q%s}`, name, more(grant)), &made)
	return made.Token
}

// inAnHour is the end of a token, as a member of its grant.
func (w *world) inAnHour() string {
	return fmt.Sprintf(`"expires":%d`, w.clock.Now().Add(time.Hour).UnixMilli())
}

// anHourLater moves the clock, and lets the daemon look at it: it does so when a token gets an end.
func (w *world) anHourLater() {
	w.t.Helper()
	w.clock.Advance(time.Hour)
	w.token("an-hour-later", w.inAnHour())
}

// more continues a list of members.
func more(members string) string {
	if members == "" {
		return ""
	}
	return "," + members
}

// defaultToken returns the secret in the home.
func (w *world) defaultToken() string {
	w.t.Helper()
	secret, err := os.ReadFile(filepath.Join(w.home, "token"))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(secret))
}

// post sends a request with a secret, if there is one, and returns the status and the body.
func (w *world) post(secret, path, body string) (int, []byte) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://"+w.address+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, text
}

// call calls a syscall over HTTP.
func (w *world) call(secret string, what message.Type, data string) outcome {
	w.t.Helper()
	namespace, method := kernel.Method(what)
	return w.callAt(secret, "/v1/call/"+namespace+"/"+method, data)
}

func (w *world) callAt(secret, path, data string) outcome {
	w.t.Helper()
	status, body := w.post(secret, path, data)
	if status == 200 {
		return outcome{data: body}
	}
	var e struct{ Message string }
	if err := json.Unmarshal(body, &e); err != nil {
		w.t.Fatalf("%s: %d %s", path, status, body)
	}
	return outcome{code: status, text: e.Message}
}

// A request is a syscall to call, with its data.
type request struct {
	Type message.Type
	Kind message.Kind
	Data string
}

func (r request) line(id string) string {
	return fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1}}`+"\n", r.Kind, r.Type, r.Data, id)
}

// overMessages sends requests as messages in one stream, and returns their outcomes.
func (w *world) overMessages(secret string, requests []request) []outcome {
	w.t.Helper()
	var body strings.Builder
	for i, r := range requests {
		body.WriteString(r.line(fmt.Sprint(i)))
	}
	status, answer := w.post(secret, "/v1/messages", body.String())
	if status != 200 {
		return all(len(requests), outcome{code: status, text: string(answer)})
	}
	return outcomes(w.t, bytes.NewReader(answer), len(requests))
}

// overUnix sends requests to the socket, as the owner.
func (w *world) overUnix(requests []request) []outcome {
	w.t.Helper()
	conn, err := new(unix.Dialer).Dial(w.t.Context(), w.socket)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for i, r := range requests {
		if _, err := conn.Write([]byte(r.line(fmt.Sprint(i)))); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := conn.CloseWrite(); err != nil {
		w.t.Fatal(err)
	}
	return outcomes(w.t, conn, len(requests))
}

// outcomes reads the answers to requests whose ids are their numbers.
func outcomes(t testing.TB, answers io.Reader, requests int) []outcome {
	t.Helper()
	found := all(requests, outcome{code: -1, text: "no answer"})
	lines := bufio.NewReader(answers)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return found
		}
		var m struct {
			Kind     message.Kind
			Data     json.RawMessage
			Metadata struct{ Causation string }
		}
		if err := errors.Join(err, json.Unmarshal(line, &m)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var i int
		if _, err := fmt.Sscan(m.Metadata.Causation, &i); err != nil || i < 0 || i >= requests || !m.Kind.Answers() {
			continue // an event
		}
		found[i] = outcome{data: m.Data}
		if m.Kind == message.KindError {
			var e struct {
				Code    int
				Message string
			}
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatal(err)
			}
			found[i] = outcome{code: e.Code, text: e.Message}
		}
	}
}

func all(n int, o outcome) []outcome {
	list := make([]outcome, n)
	for i := range list {
		list[i] = o
	}
	return list
}

// dial opens a WebSocket with a secret. The status is that of a door that stays closed.
func (w *world) dial(secret string) (conn *websocket.Conn, status int) {
	w.t.Helper()
	header := http.Header{}
	if secret != "" {
		header.Set("Authorization", "Bearer "+secret)
	}
	conn, response, err := websocket.Dial(w.t.Context(), "ws://"+w.address+"/ws", &websocket.DialOptions{HTTPHeader: header, HTTPClient: w.client})
	if err != nil {
		if response == nil {
			w.t.Fatal(err)
		}
		return nil, response.StatusCode
	}
	conn.SetReadLimit(-1)
	return conn, 0
}

// overWebSocket calls methods of JSON-RPC on one connection, and returns their outcomes.
func (w *world) overWebSocket(secret string, requests []request) []outcome {
	w.t.Helper()
	conn, status := w.dial(secret)
	if conn == nil {
		return all(len(requests), outcome{code: status})
	}
	defer func() { _ = conn.CloseNow() }()
	go func() {
		for i, r := range requests {
			namespace, method := kernel.Method(r.Type)
			frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s_%s","params":%s}`, i, namespace, method, r.Data)
			if conn.Write(w.t.Context(), websocket.MessageText, []byte(frame)) != nil {
				return // reading fails too
			}
		}
	}()
	found := all(len(requests), outcome{code: -1, text: "no answer"})
	streams := map[string]int{} // numbers of requests by subscription
	for done := 0; done < len(requests); {
		_, text, err := conn.Read(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		var f struct {
			ID     *int
			Result string
			Error  *struct {
				Code    int
				Message string
			}
			Params struct {
				Subscription string
				Result       struct {
					Type, Error string
					Code        int
					Data        json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(text, &f); err != nil {
			w.t.Fatalf("%s: %v", text, err)
		}
		item := f.Params.Result
		switch i := streams[f.Params.Subscription]; {
		case f.Error != nil:
			found[*f.ID] = outcome{code: f.Error.Code, text: f.Error.Message}
			done++
		case f.ID != nil:
			streams[f.Result] = *f.ID
		case item.Type == "data":
			found[i] = outcome{data: item.Data}
		case item.Type == "error":
			found[i] = outcome{code: item.Code, text: item.Error}
		case item.Type == "done":
			done++
		}
	}
	return found
}
