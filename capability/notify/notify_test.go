package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/internal/outbound"
	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a kernel with the module. Its seal only turns a text around.
type world struct {
	*testing.T
	kernel *kernel.Kernel
	as     *principal.Principal
	ids    int
}

func turned(text string) string {
	b := []byte(text)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

func newWorld(t *testing.T, s store.Store, p outbound.Policy) *world {
	client := outbound.NewClient(p, nil)
	t.Cleanup(client.CloseIdleConnections)
	n := New(&Options{
		Store: s, Client: client,
		Seal: func(_ context.Context, text string, to sealed.Destination) (string, error) {
			return to.String() + " " + turned(text), nil
		},
		Open: func(_ context.Context, text string, use sealed.Use) ([]byte, sealed.Destination, error) {
			to, text, _ := strings.Cut(text, " ")
			d := sealed.Destination{to}
			return []byte(turned(text)), d, d.Refuses(use)
		},
	})
	return &world{T: t, kernel: kerneltest.Of(t, &kernel.Options{Store: s}, n.Module()), as: principal.TheOwner()}
}

// call returns the data of the outcome; of an error, its code and message.
func (w *world) call(action, data string) string {
	w.Helper()
	w.ids++
	m := kerneltest.Command(message.ID(fmt.Sprint(w.ids)), message.Type("Notify."+action), data)
	outcome := kerneltest.Outcome(kernel.ActFor(w.Context(), kernel.From(w.as, "unix")), w.kernel, m)
	if outcome.Kind == message.KindError {
		code, text := kerneltest.ReadError(w, outcome)
		return fmt.Sprint(code, " ", text)
	}
	return string(outcome.Data)
}

func (w *world) want(got, want string) {
	w.Helper()
	if !strings.HasPrefix(got, want) {
		w.Errorf("got  %s\nwant %s", got, want)
	}
}

// waiting returns the texts of Notify.List.
func (w *world) waiting() string {
	w.Helper()
	var out listOutput
	if err := json.Unmarshal([]byte(w.call("List", `{}`)), &out); err != nil {
		w.Fatal(err)
	}
	var texts []string
	for _, n := range out.Notifications {
		texts = append(texts, n.From+": "+n.Text)
	}
	if out.Waiting != len(texts) {
		w.Errorf("%d wait, and %d are listed", out.Waiting, len(texts))
	}
	return strings.Join(texts, ", ")
}

// token returns a principal that isn't the owner.
func token(t *testing.T, name string) *principal.Principal {
	t.Helper()
	p, err := principal.New(principal.ID("id-"+name), name, principal.Grant{Preset: principal.Agent})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What was acknowledged waits until it was seen, also when the machine loses its power. A token sees its own, and the owner all.
func TestANotificationWaitsUntilItIsSeen(t *testing.T) {
	s := storetest.NewMemory()
	w := newWorld(t, s, outbound.Policy{})
	var first sendOutput
	if err := json.Unmarshal([]byte(w.call("Send", `{"text":"Call mum","title":"Reminder"}`)), &first); err != nil || first.ID == "" {
		t.Fatal(first, err)
	}
	w.as = token(t, "ada")
	w.want(w.call("Send", `{"text":"Done."}`), `{"id":`)
	w.want(w.waiting(), "ada: Done.")
	w.want(w.call("Seen", `{"ids":["`+first.ID+`"]}`), `{"seen":0,"waiting":1}`) // it isn't hers

	after := newWorld(t, s.Crash(0), outbound.Policy{})
	after.want(after.waiting(), "ada: Done., owner: Call mum")
	after.want(after.call("List", `{"limit":1}`), `{"notifications":[{"id":`)
	after.want(after.call("Seen", `{}`), "422 Schema validation failed: ids: give the ids")
	after.want(after.call("Seen", `{"all":true,"ids":["x"]}`), "422 Schema validation failed: ids: give the ids")
	after.want(after.call("Seen", `{"ids":["`+first.ID+`"]}`), `{"seen":1,"waiting":1}`)
	after.want(after.call("Seen", `{"ids":["`+first.ID+`"]}`), `{"seen":0,"waiting":1}`)
	after.want(after.call("Seen", `{"all":true}`), `{"seen":1,"waiting":0}`)
	if left := after.waiting(); left != "" {
		t.Errorf("%s still wait", left)
	}
}

// One caller can't fill the list of the others.
func TestWhatMayWaitIsBounded(t *testing.T) {
	w := newWorld(t, storetest.NewMemory(), outbound.Policy{})
	w.as = token(t, "ada")
	for range maxWaiting {
		w.want(w.call("Send", `{"text":"again"}`), `{"id":`)
	}
	w.want(w.call("Send", `{"text":"again"}`), "429 100 notifications of ada wait")
	w.want(w.call("Send", `{"text":"`+strings.Repeat("x", 2001)+`"}`), "422 ")
	w.as = principal.TheOwner()
	w.want(w.call("Send", `{"text":"mine"}`), `{"id":`)
}

// A target gets what its kind takes. Its address is in no answer, also if the target can't be reached or fails.
func TestTargetsAreSentTo(t *testing.T) {
	const secret = "a-secret-path"
	status, got := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = fmt.Sprintf("%s %s %q %s %s", r.Method, r.URL.Path, r.Header.Get("Title"), r.Header.Get("Content-Type"), body)
		rw.Header().Set("Location", "/elsewhere")
		rw.WriteHeader(status)
	}))
	defer server.Close()
	s := storetest.NewMemory()
	w := newWorld(t, s, outbound.Policy{Loopback: true})
	w.want(w.call("Send", `{"text":"x","to":"phone"}`), `404 No target "phone": none is configured`)
	for _, address := range []string{"phone", "ftp://example.com/a", "https:///a", "https://ntfy.sh/"} {
		w.want(w.call("Add", `{"name":"phone","kind":"ntfy","url":"`+address+`"}`), "422 Schema validation failed: url: ")
	}
	host := strings.TrimPrefix(server.URL, "http://")
	w.want(w.call("Add", `{"name":"phone","kind":"ntfy","url":"`+server.URL+`/`+secret+`"}`), `{"name":"phone","host":"`+host+`"}`)
	w.want(w.call("Add", `{"name":"phone","kind":"webhook","url":"`+server.URL+`/x"}`), "409 A target phone is configured already")
	w.want(w.call("Add", `{"name":"desk","kind":"webhook","url":"`+server.URL+`/`+secret+`"}`), `{"name":"desk"`)
	w.want(w.call("Send", `{"text":"x","to":"phon"}`), `404 No target "phon": did you mean phone?`)

	w.want(w.call("Send", `{"text":"Call mum","title":"Grüße","to":"phone"}`), `{"to":"phone"}`)
	w.want(got, `POST /a-secret-path "=?utf-8?b?R3LDvMOfZQ==?=" text/plain; charset=utf-8 Call mum`)
	w.as = token(t, "ada")
	w.want(w.call("Send", `{"text":"Call \"mum\"","title":"Reminder","to":"desk"}`), `{"to":"desk"}`)
	w.want(got, `POST /a-secret-path "" application/json {"text":"Call \"mum\"","title":"Reminder","from":"ada","at":"20`)
	w.want(w.call("Targets", `{}`), `{"targets":[{"name":"desk","kind":"webhook"},{"name":"phone","kind":"ntfy"}]}`)
	w.want(w.call("Remove", `{"name":"desk"}`), "403 ")
	w.as = principal.TheOwner()

	var answers []string
	for _, c := range []struct {
		status int
		want   string
	}{{404, "502 The target phone refuses"}, {429, "429 The target phone takes no"}, {500, "502 The target phone refuses"}, {503, "503 The target"}, {307, "502 The target phone answers with a redirect"}} {
		status = c.status
		answers = append(answers, w.call("Send", `{"text":"x","to":"phone"}`))
		w.want(answers[len(answers)-1], c.want)
	}
	server.Close()
	answers = append(answers, w.call("Send", `{"text":"x","to":"phone"}`))
	w.want(answers[len(answers)-1], "502 The target phone can't be reached")
	guarded := newWorld(t, s, outbound.Policy{})
	answers = append(answers, guarded.call("Send", `{"text":"x","to":"phone"}`))
	w.want(answers[len(answers)-1], "403 The policy for connections refuses the target phone")
	if all := strings.Join(answers, "\n"); strings.Contains(all, secret) || strings.Contains(all, host) {
		t.Errorf("an error has the address: %s", all)
	}
	w.want(w.waiting(), "") // nothing of this waits here
	w.want(w.call("Remove", `{"name":"phone"}`), `{"removed":true}`)
	w.want(w.call("Remove", `{"name":"phone"}`), `404 No target "phone": there is desk`)
}
