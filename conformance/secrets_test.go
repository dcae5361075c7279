package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// secretModule has syscalls whose schemas mark secrets.
func secretModule() kernel.Module {
	parse := func(text string) *schema.Schema {
		s, err := schema.Parse(json.RawMessage(text))
		if err != nil {
			panic(err)
		}
		return s
	}
	echo := func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(m.Data)) }
	syscall := func(t message.Type, input *schema.Schema, h kernel.Handler) kernel.Syscall {
		return kernel.Syscall{Handler: h, Definition: kernel.Definition{Type: t, Kind: message.KindCommand, Summary: "A test.", Input: input, Output: input}}
	}
	account := parse(`{"type":"object","properties":{"user":{"type":"string"},"password":{"type":"string","writeOnly":true},"more":{"type":"array","items":{"properties":{"pin":{"writeOnly":true}}}}},"required":["user"],"additionalProperties":false}`)
	nested := func(ctx context.Context, m message.Message, emit kernel.Emit) {
		data, err := kernel.Invoke(ctx, "Account.Login", m.Data)
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}
	unlock := func(ctx context.Context, m message.Message, emit kernel.Emit) {
		if _, err := kernel.Invoke(ctx, "Crypto.Open", m.Data); err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(json.RawMessage(`{"success":true}`)))
	}
	big := func(_ context.Context, m message.Message, emit kernel.Emit) {
		var in struct{ User, Password string }
		_ = json.Unmarshal(m.Data, &in)
		out, _ := json.Marshal(map[string]string{"user": in.User, "password": strings.Repeat(in.Password, 2000)})
		emit(m.Reply(out))
	}
	staged := func(ctx context.Context, m message.Message, emit kernel.Emit) {
		var b store.Batch
		b.Set([]byte("mtest"), []byte("1"))
		_ = kernel.Stage(ctx, &b)
		emit(m.Reply(m.Data))
	}
	failing := syscall("Account.Fail", account, func(_ context.Context, m message.Message, emit kernel.Emit) {
		var in struct{ Password string }
		_ = json.Unmarshal(m.Data, &in)
		emit(m.Fail(message.Errorf(400, "bad password %s: %w", in.Password, message.Errorf(400, "%q is known", in.Password))))
	})
	failing.Provider = kernel.Program // as that of a program on a connection
	telling := syscall("Account.Tell", account, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		var in struct{ Password string }
		_ = json.Unmarshal(m.Data, &in)
		said, _ := json.Marshal(map[string]any{"with": []string{"it is " + in.Password}, in.Password: 1})
		emit(m.Event("Account.Told", said))
		_ = kernel.Publish(ctx, "Account.Told", said)
		if _, err := kernel.Invoke(ctx, "Ping", fmt.Appendf(nil, `{"payload":%s}`, said)); err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(m.Data))
	})
	telling.Emits = []kernel.EventDefinition{{Type: "Account.Told", Summary: "A test."}}
	return kernel.Module{Name: "secret", Version: "1.0.0", Summary: "Secrets.", Syscalls: []kernel.Syscall{
		syscall("Account.Login", account, echo),
		syscall("Account.Nested", account, nested),
		syscall("Account.Big", account, big),
		syscall("Account.Staged", account, staged),
		syscall("Account.Unlock", schema.Any, unlock),
		failing,
		telling,
	}}
}

// secretPaths are lines with a secret, SECRET, in every place where a secret is known to be
// one, or where that can't be known.
var secretPaths = []string{
	// Marked by a schema.
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","p\u0061ssword":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","more":[{"pin":["SECRET"]}]},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k1"}}`,
	`{"kind":"command","type":"Account.Nested","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Big","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Big","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k2"}}`,
	`{"kind":"command","type":"Account.Staged","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Staged","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k3"}}`,
	`{"type":"command","name":"Account.Login","payload":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	// Refused, for whatever reason.
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","pasword":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":{"user":1,"password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":["SECRET"]},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":"SECRET","metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Account.Login","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Acount.Login","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"shout","type":"Account.Login","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"SECRET"},"metadata":{"id":7,"timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"SECRET"}}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"SECRET"},"extra":"SECRET","metadata":{"id":"a","timestamp":1}}`,
	`{"type":"command","name":"Account.Login","payload":{"user":7,"password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	// No messages at all.
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"SECRET","metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Login","data":{"password":"SECRET" "user"},"metadata":{"id":"a","timestamp":1}}`,
	`SECRET`, `"SECRET"`, `["SECRET"]`, `{"password":"SECRET"}`, "\xffSECRET", `{"kind":"command","password":SECRET}`,
	`{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"SECRET","x":"` + strings.Repeat("x", 20_000) + `"},"metadata":{"id":"a","timestamp":1}}`,
	// Repeated in errors and events.
	`{"kind":"command","type":"Account.Fail","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Fail","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k9"}}`,
	`{"type":"command","name":"Account.Fail","payload":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Tell","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Tell","data":{"user":"ada","password":"SECRET"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k10"}}`,
	// Headers that are secrets wherever they are. The server at SERVER sends them back.
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER","headers":{"Authorization":"Bearer SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER","headers":{"authoriZation":"Bearer SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER","headers":{"Authori\u007aation":"Bearer SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER","headers":{"Cookie":"session=SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER","headers":{"Authorization":"Bearer SECRET","Cookie":"session=SECRET"}},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k4"}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER/large","headers":{"Authorization":"Bearer SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER/set","headers":{"X-Number":"NUMBER"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER","method":"POST","body":"{\"authorization\":\"Bearer SECRET\"}"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER","headers":{"Authorization":"Bearer SEALED"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"http://127.0.0.1:1/","headers":{"Authorization":"Bearer SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"headers":{"Set-Cookie":["session=SECRET"]}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Http.Fetch","data":{"url":"SERVER","headers":{"PROXY-AUTHORIZATION":{"x":"SECRET"}}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Ping","data":{"payload":[{"deep":{"cookie":"SECRET"}}]},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Ping","data":{"payload":"{\"headers\":{\"Authorization\":\"Bearer SECRET\"}}"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Ping","data":{"payload":"curl -H \"Authorization: Bearer SECRET\" https://example.com"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Echo","data":{"message":"curl -b x --cookie='SECRET'"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"event","type":"Http.Fetched","data":{"headers":{"Set-Cookie":"SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"reply","type":"Http.Fetch","data":{"headers":{"Set-Cookie":"SECRET"}},"metadata":{"id":"a","timestamp":1,"causation":"b"}}`,
	`{"kind":"error","type":"Http.Fetch","data":{"code":502,"message":"refused with Authorization: Bearer SECRET"},"metadata":{"id":"a","timestamp":1,"causation":"b"}}`,
	`{"kind":"error","type":"Http.Fetch","data":{"code":502,"message":"no","cause":{"code":502,"message":"{\"Cookie\":\"SECRET\"}"}},"metadata":{"id":"a","timestamp":1,"causation":"b"}}`,
	`{"kind":"error","type":"Account.Login","data":{"code":400,"message":"bad password SECRET"},"metadata":{"id":"a","timestamp":1,"causation":"b"}}`,
	`{"kind":"error","type":"Crypto.Open","data":{"code":400,"message":"it is SECRET"},"metadata":{"id":"a","timestamp":1,"causation":"b"}}`,
	`{"kind":"error","type":"Memory.Set","data":{"key":"vault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1,"causation":"b"}}`,
	`{"type":"event","name":"Http.Fetched","payload":{"headers":{"Set-Cookie":"SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	// What is sealed and opened. SEALED is the secret in its sealed form.
	`{"kind":"command","type":"Crypto.Seal","data":{"plaintext":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Open","data":{"ciphertext":{"x":["SECRET"]}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Open","data":"SECRET","metadata":{"id":"a","timestamp":1,"idempotencyKey":"k5"}}`,
	`{"kind":"command","type":"Crypto.Seal","data":{"plaintext":"pwenc:v1:SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Seal","data":{"plaintext":"SECRET"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k7"}}`,
	`{"kind":"command","type":"Crypto.Seal","data":{"plaintext":"SECRET","key":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Seal","data":{"plaintext":"SECRET","key":"ssh-fp:SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Seal","data":{"plaintext":["SECRET"]},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Seal","data":{"plaintxt":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Seal","data":{"plaintext":"SECRET` + strings.Repeat("x", 9000) + `"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Crypto.Seal","data":{"plaintext":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"type":"command","name":"Crypto.Seal","payload":{"plaintext":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Crypto.Open","data":{"ciphertext":"SEALED"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Open","data":{"ciphertext":"SEALED"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k8"}}`,
	`{"type":"query","name":"Crypto.Open","payload":{"ciphertext":"SEALED"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Account.Unlock","data":{"ciphertext":"SEALED"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Crypto.Open","data":{"ciphertext":"SEALED","aad":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Crypto.Open","data":{"ciphertext":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Crypto.Open","data":{"ciphertext":"pwenc:v1:SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Crypto.Open","data":{"plaintext":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Crypto.Derive","data":"SECRET","metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Crypto.Derive","data":{"key":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"vault/x","value":"SEALED"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Crypto.Sael","data":{"plaintext":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"reply","type":"Crypto.Open","data":"SECRET","metadata":{"id":"a","timestamp":1,"causation":"b"}}`,
	`{"kind":"event","type":"Crypto.Opened","data":{"plaintext":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"crypto.seal","data":{"plaintext":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	// What must not be in the vault.
	`{"kind":"command","type":"Memory.Set","data":{"key":"vault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"/vault/x","value":{"deep":["SECRET"]}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"//vault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"./vault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"a/../vault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"VAULT/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"v\u0061ult/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"ｖault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"vault\\x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"%76ault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"vault/x","value":"pwenc:v1:SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"vault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k6"}}`,
	`{"kind":"command","type":"Memory.Set","data":{"key":"vault/x","valueRef":{"scheme":"data","path":"text/plain,SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"query","type":"Memory.Set","data":{"key":"vault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"type":"command","name":"Memory.Set","payload":{"key":"vault/x","value":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"VFS.Write","data":{"uri":"os://memory/vault/x","content":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"VFS.Write","data":{"uri":"os:///memory/./vault/x","content":"SECRET"},"metadata":{"id":"a","timestamp":1,"idempotencyKey":"k12"}}`,
	`{"kind":"command","type":"VFS.Write","data":{"uri":"os://memory/vault/x","contentRef":{"scheme":"data","path":"text/plain,SECRET"}},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"VFS.Write","data":{"uri":"os://nowhere\\x","content":"SECRET"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"VFS.Write","data":{"uri":"os://request.txt","content":"GET / HTTP/1.1\r\nCookie: SECRET\r\n"},"metadata":{"id":"a","timestamp":1}}`,
	`{"kind":"command","type":"Memory.Set","data":{"value":"SECRET","key":"vault/` + strings.Repeat("x", 2000) + `"},"metadata":{"id":"a","timestamp":1}}`,
}

// TestSecretsNeverTouchTheDisk sends secrets down every path and then looks for them in
// every byte of every file that the kernel has written.
//
// Clauses: M24-8.2-3
func TestSecretsNeverTouchTheDisk(t *testing.T) {
	for name, agent := range map[string]string{"with an agent": serveAgent(t), "with a key file": ""} {
		t.Run(name, func(t *testing.T) { sendSecrets(t, agent) })
	}
}

// echoes is a server that sends back the headers, the query and the body that it gets, or sets a
// cookie.
func echoes(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch r.URL.Path {
		case "/set":
			number, _ := strconv.Atoi(r.Header.Get("X-Number"))
			w.Header().Set("Set-Cookie", "session="+secret(number))
			return
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("large ", 10_000))
		}
		body, _ := io.ReadAll(r.Body)
		text, _ := json.Marshal(map[string]any{"headers": r.Header, "query": r.URL.RawQuery, "body": string(body)})
		_, _ = w.Write(text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func sendSecrets(t *testing.T, agent string) {
	w, dir := openLogged(t, agent)
	server := echoes(t)
	sealed := make([]string, len(secretPaths))
	for i := range sealed {
		answer := w.command("Crypto.Seal", `{"plaintext":%q}`, secret(i))
		if err := json.Unmarshal(answer.Data, &sealed[i]); err != nil {
			t.Fatalf("%s: %v", answer.Data, err)
		}
	}
	conn := w.connect()
	go func() {
		for i, path := range secretPaths {
			_, _ = fmt.Fprintln(conn.in, strings.NewReplacer("SECRET", secret(i), "SEALED", sealed[i], "SERVER", server, "NUMBER", strconv.Itoa(i)).Replace(path))
		}
		_, _ = fmt.Fprintln(conn.in, `{"kind":"command","type":"Echo","data":{"message":"xyzzy-is-recorded"},"metadata":{"id":"last","timestamp":1}}`)
		_, _ = fmt.Fprintln(conn.in, `{"kind":"command","type":"Memory.Set","data":{"key":"/plain","value":"xyzzy-is-recorded"},"metadata":{"id":"set","timestamp":1}}`)
		_ = conn.in.Close()
	}()
	answers, opened, echoed := 0, 0, 0
	for {
		line, err := conn.out.ReadString('\n')
		if err != nil {
			break
		}
		answers++
		if strings.Contains(line, `"Crypto.Open"`) && strings.Contains(line, "hunter") {
			opened++
		}
		if strings.Contains(line, `"Http.Fetch"`) && strings.Contains(line, "hunter") {
			echoed++
		}
		if strings.Contains(line, `"kind":"error"`) || strings.Contains(line, `"type":"error"`) {
			if found := secrets.FindString(line); found != "" {
				t.Errorf("an error quotes %s: %s", found, line)
			}
		}
	}
	if answers < len(secretPaths)-10 {
		t.Errorf("%d lines got %d answers", len(secretPaths), answers)
	}
	if opened != 3 {
		t.Errorf("%d secrets were opened, want 3", opened)
	}
	if echoed != 7 {
		t.Errorf("%d secrets came back from the server, want 7", echoed)
	}
	searchKept(t, w, dir)
}

// openLogged opens a whole kernel in a new directory, with its log there too, and with more modules.
func openLogged(t *testing.T, agent string, more ...kernel.Module) (w *whole, dir string) {
	t.Helper()
	dir = t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	w, err = openWhole(dir, around{engine: engines["pebble"], agent: agent, log: log, files: t.TempDir(), more: append(more, secretModule())})
	if err != nil {
		t.Fatal(err)
	}
	return w, dir
}

// searchKept looks for secrets in all that a kernel has kept, and closes the kernel.
func searchKept(t *testing.T, w *whole, dir string) {
	t.Helper()
	search(t, "the store", func(look func(where string, b []byte)) {
		if err := w.journal.Flush(); err != nil {
			t.Error(err)
		}
		for e, err := range w.store.Scan(store.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			look(fmt.Sprintf("the key %q", e.Key), e.Key)
			look(fmt.Sprintf("the value of %q", e.Key), e.Value)
		}
	})
	search(t, "the journal", func(look func(where string, b []byte)) { // its pages are compressed
		for _, e := range recordedMessages(t, w) {
			look(fmt.Sprintf("message %d", e.Seq), message.Append(nil, &e.Message))
		}
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	search(t, "the files", func(look func(where string, b []byte)) {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Type() == fs.ModeSymlink { // the script engine, compiled
				return err
			}
			text, err := os.ReadFile(name)
			look(filepath.Base(name), text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// recordedMessages returns all that the journal has.
func recordedMessages(t *testing.T, w *whole) (all []journal.Entry) {
	t.Helper()
	q := journal.Query{Limit: journal.MaxLimit}
	for {
		page, next, err := w.journal.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page...); next == 0 {
			return all
		}
		q.After = next
	}
}

// recordedText stands in messages that are not secret. It must be found, lest no secret is found
// because nothing is searched.
const recordedText = "xyzzy-is-recorded"

// secrets matches every secret that the tests send.
var secrets = regexp.MustCompile(`hunter\d{7}q`)

func secret(i int) string { return fmt.Sprintf("hunter%07dq", i) }

// search fails the test for each secret in the texts that each calls look with, and if none of
// them holds recordedText.
func search(t *testing.T, what string, each func(look func(where string, b []byte))) {
	t.Helper()
	recorded := false
	each(func(where string, b []byte) {
		recorded = recorded || bytes.Contains(b, []byte(recordedText))
		if found := secrets.Find(b); found != nil {
			t.Errorf("%s: %s holds %s", what, where, found)
		}
	})
	if !recorded {
		t.Errorf("%s: %s was not found either", what, recordedText)
	}
}
