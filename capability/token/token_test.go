package token_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/token"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file is a file of the default token.
type file struct {
	secret string
	err    error
}

func (f *file) Value() (string, error) { return f.secret, f.err }

func (f *file) Replace() error {
	f.secret += "-new"
	return f.err
}

// world is a directory with a kernel around it.
type world struct {
	t     *testing.T
	store *storetest.Memory
	file  *file
	*token.Directory
	kernel *kernel.Kernel
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: storetest.NewMemory(), file: &file{secret: "the-secret-of-the-default-token"}}
	w.open()
	return w
}

// open opens the directory, again if it was open.
func (w *world) open() {
	w.t.Helper()
	d := token.New(&token.Options{Store: w.store})
	d.SetFile(w.file)
	w.t.Cleanup(d.Close)
	w.Directory = d
	w.kernel = kerneltest.Of(w.t, &kernel.Options{Store: w.store}, token.Module(d))
}

// call returns the data of a reply, or the error.
func (w *world) call(t message.Type, data string) (reply json.RawMessage, err error) {
	w.t.Helper()
	m := kerneltest.Outcome(w.t.Context(), w.kernel, kerneltest.Command("q", t, data))
	if m.Kind == message.KindError {
		return nil, m.Err
	}
	return m.Data, nil
}

// withSecret is the reply that has the secret of a token.
type withSecret struct {
	Token string
	token.Info
}

// secret creates or rotates a token.
func (w *world) secret(t message.Type, data string) withSecret {
	w.t.Helper()
	reply, err := w.call(t, data)
	if err != nil {
		w.t.Fatal(err)
	}
	var out withSecret
	if err := json.Unmarshal(reply, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) principal(secret string) *principal.Principal {
	w.t.Helper()
	p, err := w.Authenticate(secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func TestATokenIsItsSecret(t *testing.T) {
	w := newWorld(t)
	ci := w.secret("Token.Create", `{"name":"ci","preset":"viewer"}`)
	if !strings.HasPrefix(ci.Token, "kernos_") || len(ci.Token) < 40 {
		t.Fatalf("the secret is %q", ci.Token)
	}
	for range 2 { // the second time after a restart
		p := w.principal(ci.Token)
		if p == nil || p.ID() != ci.ID || p.Name() != "ci" || p.Grant().Preset != principal.Viewer {
			t.Fatalf("got %+v", p)
		}
		if w.principal(ci.Token[:len(ci.Token)-1]) != nil || w.principal("") != nil || w.principal("ci") != nil {
			t.Error("something else than the secret is accepted")
		}
		w.open()
	}
	for e, err := range w.store.Scan(store.Range{}) {
		if err != nil || strings.Contains(string(e.Value), ci.Token) {
			t.Error("the secret is stored", err)
		}
	}
}

func TestANameThatIsCreatedAgainInheritsNothing(t *testing.T) {
	w := newWorld(t)
	first := w.secret("Token.Create", `{"name":"ci"}`)
	if _, err := w.call("Token.Create", `{"name":"ci"}`); codeOf(err) != 409 {
		t.Errorf("a second one: %v", err)
	}
	p := w.principal(first.Token)
	if _, err := w.call("Token.Revoke", `{"name":"ci"}`); err != nil {
		t.Fatal(err)
	}
	if <-p.Life().Done(); w.principal(first.Token) != nil {
		t.Error("the token is accepted after it was revoked")
	}
	if second := w.secret("Token.Create", `{"name":"ci"}`); second.ID == first.ID || second.Token == first.Token {
		t.Error("the second token is the first one")
	}
	w.open()
	if w.principal(first.Token) != nil {
		t.Error("the token is accepted after it was revoked and the kernel started again")
	}
}

// What acts for a caller and the author of code is found again by its id, as long as both are there.
func TestBothAreFoundAgain(t *testing.T) {
	w := newWorld(t)
	caller := w.secret("Token.Create", `{"name":"caller","deny":["Http.*"]}`)
	author := w.secret("Token.Create", `{"name":"author","deny":["Memory.*"]}`)
	id := principal.Both(w.principal(caller.Token), w.principal(author.Token)).ID()
	for _, target := range []message.Type{"Http.Fetch", "Memory.Get"} {
		if p, err := w.Find(id); err != nil || p == nil || p.ID() != id || p.May(principal.Target{Type: target, Kind: message.KindCommand}) == nil {
			t.Errorf("%v may call %s (%v)", p, target, err)
		}
	}
	if _, err := w.call("Token.Revoke", `{"name":"author"}`); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Find(id); p != nil || err != nil {
		t.Errorf("one of them was revoked, and both are found (%v)", err)
	}
}

func TestRotation(t *testing.T) {
	w := newWorld(t)
	old := w.secret("Token.Create", `{"name":"ci","memory":["ci"]}`)
	p := w.principal(old.Token)
	renewed := w.secret("Token.Rotate", `{"name":"ci"}`)
	<-p.Life().Done()
	if q := w.principal(renewed.Token); w.principal(old.Token) != nil || q == nil || q.ID() != p.ID() || len(q.Grant().Memory) != 1 {
		t.Errorf("after the rotation: %+v", q)
	}
}

func TestTheDefaultToken(t *testing.T) {
	w := newWorld(t)
	p := w.principal(w.file.secret)
	if p != w.Default() || p.Grant().Preset != principal.Agent {
		t.Fatalf("got %+v", p)
	}
	if out := w.secret("Token.Rotate", `{"name":"default"}`); out.Token != w.file.secret {
		t.Errorf("the new secret is %q", out.Token)
	}
	<-p.Life().Done()
	p = w.principal(w.file.secret)
	w.file.secret = "another-program-has-written-the-file"
	if w.principal("the-secret-of-the-default-token-new") != nil {
		t.Error("the old secret is accepted")
	}
	<-p.Life().Done()
	if w.principal(w.file.secret) == nil {
		t.Error("the new secret is not accepted")
	}
	w.file.err = errors.New("no permission")
	if _, err := w.Authenticate("x"); err == nil {
		t.Error("a file that can't be read is no error")
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		soon := time.Now().Add(time.Minute).UnixMilli()
		ci := w.secret("Token.Create", fmt.Sprintf(`{"name":"ci","expires":%d}`, soon))
		p := w.principal(ci.Token)
		begun := time.Now()
		<-p.Life().Done()
		if took := time.Since(begun); took > time.Minute+time.Second {
			t.Errorf("it ended after %v", took)
		}
		if w.principal(ci.Token) != nil {
			t.Error("the token is accepted after its time")
		}
		if _, err := w.call("Token.Create", `{"name":"past","expires":1}`); codeOf(err) != 422 {
			t.Errorf("a token of the past: %v", err)
		}
		later := w.secret("Token.Create", `{"name":"later"}`)
		over := fmt.Sprintf(`{"name":"later","expires":%d}`, time.Now().UnixMilli())
		if _, err := w.call("Token.Update", over); codeOf(err) != 422 || w.principal(later.Token) == nil {
			t.Errorf("the end of a token is moved to the past: %v", err)
		}
		if _, err := w.call("Token.Update", fmt.Sprintf(`{"name":"ci","expires":%d}`, time.Now().Add(time.Minute).UnixMilli())); err != nil || w.principal(ci.Token) == nil {
			t.Errorf("a token gets more time after its end: %v", err)
		}
	})
}

func TestUpdate(t *testing.T) {
	w := newWorld(t)
	ci := w.secret("Token.Create", `{"name":"ci","deny":["Http.*"]}`)
	p := w.principal(ci.Token)
	if _, err := w.call("Token.Update", `{"name":"ci","allow":["Crypto.Open"],"take":["Http.*"],"rate":2}`); err != nil {
		t.Fatal(err)
	}
	<-p.Life().Done()
	q := w.principal(ci.Token)
	if q == nil || q.ID() != p.ID() {
		t.Fatalf("got %+v", q)
	}
	for _, name := range []message.Type{"Crypto.Open", "Http.Fetch"} {
		if err := q.May(principal.Target{Type: name, Kind: message.KindQuery}); err != nil {
			t.Error(err)
		}
	}
	for i, allowed := range []bool{true, true, false} {
		if got := q.Admit(); (got == nil) != allowed {
			t.Errorf("request %d: %v", i, got)
		}
	}
}

func TestUpdateLiftsLimits(t *testing.T) {
	w := newWorld(t)
	ci := w.secret("Token.Create", `{"name":"ci","readOnly":true,"memory":["notes"],"files":["os://docs"],"rate":1,"expires":`+fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())+`}`)
	if p := w.principal(ci.Token); p.May(principal.Target{Type: "Memory.Set", Kind: message.KindCommand}) == nil || p.Key("other") == nil {
		t.Fatal("the limits don't hold")
	}
	if _, err := w.call("Token.Update", `{"name":"ci","take":["read-only","memory","files","rate","expires"]}`); err != nil {
		t.Fatal(err)
	}
	p := w.principal(ci.Token)
	if err := p.May(principal.Target{Type: "Memory.Set", Kind: message.KindCommand}); err != nil {
		t.Error(err)
	}
	if p.Key("other") != nil || p.File("os://other", false) != nil || p.Admit() != nil || p.Admit() != nil || p.Admit() != nil {
		t.Error("a limit still holds")
	}
	if info, err := w.call("Token.Show", `{"name":"ci"}`); err != nil || strings.Contains(string(info), "expires") {
		t.Errorf("got %s, %v", info, err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	w := newWorld(t)
	for data, code := range map[string]int{
		`{"name":"default"}`:              422,
		`{"name":"owner"}`:                422,
		`{"name":"a b"}`:                  422,
		`{"name":"x","preset":"owner"}`:   422,
		`{"name":"x","allow":["memory"]}`: 422,
	} {
		if _, err := w.call("Token.Create", data); codeOf(err) != code {
			t.Errorf("%s: %v", data, err)
		}
	}
	for _, change := range []message.Type{"Token.Revoke", "Token.Update"} {
		if _, err := w.call(change, `{"name":"default"}`); codeOf(err) != 409 || !strings.Contains(err.Error(), "kernos token --new") {
			t.Errorf("%s of the default token: %v", change, err)
		}
	}
	if _, err := w.call("Token.Revoke", `{"name":"absent"}`); codeOf(err) != 404 {
		t.Errorf("no such token: %v", err)
	}
}

func TestListing(t *testing.T) {
	w := newWorld(t)
	w.secret("Token.Create", `{"name":"b"}`)
	w.secret("Token.Create", `{"name":"a","allow":["Memory.*"]}`)
	reply, err := w.call("Token.List", `{}`)
	var out struct{ Tokens []token.Info }
	if err := errors.Join(err, json.Unmarshal(reply, &out)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, info := range out.Tokens {
		names = append(names, info.Name+":"+string(info.Preset))
	}
	if got := strings.Join(names, " "); got != "default:agent a: b:agent" {
		t.Error(got)
	}
	if strings.Contains(string(reply), "kernos_") || strings.Contains(string(reply), w.file.secret) {
		t.Error("a listing shows secrets")
	}
}

func codeOf(err error) int {
	if e, ok := errors.AsType[*message.Error](err); ok {
		return e.Code
	}
	return 0
}

// Rights are decided by the names that are listed: a pattern of an older name would do nothing.
func TestPatternsOfOlderNames(t *testing.T) {
	w := newWorld(t)
	if err := w.kernel.Registry().Add(kerneltest.Module("old", func() kernel.Syscall {
		s := kerneltest.Echo("Http.Fetch")
		s.Aliases = []message.Type{"Network.Fetch"}
		return s
	}())); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"Network.Fetch", "Network.*"} {
		_, err := w.call("Token.Create", fmt.Sprintf(`{"name":"ci","deny":[%q]}`, pattern))
		if codeOf(err) != 422 || !strings.Contains(err.Error(), "another name for Http.Fetch") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if _, err := w.call("Token.Create", `{"name":"ci","deny":["Http.*"]}`); err != nil {
		t.Error(err)
	}
}
