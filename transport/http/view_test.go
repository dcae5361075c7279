package http

import (
	"context"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// tokens returns a guard that knows some secrets, and the principals that they stand for.
func tokens(t testing.TB, grants map[string]principal.Grant) (*Guard, map[string]*principal.Principal) {
	t.Helper()
	all := make(map[string]*principal.Principal)
	for name, g := range grants {
		p := kerneltest.Principal(t, principal.ID(name), name, g)
		all[name] = p
	}
	return &Guard{Authenticate: func(given string) (*principal.Principal, error) {
		if p := all[given]; p != nil && p.Life().Err() == nil {
			return p, nil
		}
		return nil, nil
	}}, all
}

func bearing(name string) []string { return []string{"Authorization", "Bearer " + name} }

// Whatever tells what can be called tells a caller of what it may call, and of nothing else:
// neither names nor schemas nor suggestions, and the hash is one of its own.
//
// Clauses: RPC-8.1-1
func TestACallerIsShownWhatItMayCall(t *testing.T) {
	guard, _ := tokens(t, map[string]principal.Grant{
		"all":  {Preset: principal.Console},
		"bank": {Allow: []string{"Bank.*"}},
		"shop": {Allow: []string{"Shop.*"}},
	})
	reply := func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply([]byte(`1`))) }
	s := open(t, siteOptions{guard: guard, syscalls: []kernel.Syscall{
		raw("Bank.Login", message.KindQuery, reply), raw("Shop.Zebra", message.KindCommand, reply),
	}})
	hashes := make(map[string]string)
	for _, name := range []string{"all", "bank", "shop"} {
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/openapi.json", ""},
			{"GET", "/openrpc.json", ""},
			{"POST", "/v1/call/service/schema", "[]"},
			{"POST", "/v1/call/syscall/list", "{}"},
			{"POST", "/v1/call/bonk/login", "{}"},
			{"POST", "/v1/call/shap/zebra", "{}"},
			{"POST", "/v1/call/syscall/describe", `{"name":"Bank.Lagin"}`},
			{"POST", "/v1/messages", ask("1", "Bank.Lagin", "{}")},
			{"POST", "/v1/messages", ask("1", "Shop.Zebro", "{}")},
		} {
			a := s.do(c.method, c.path, c.body, bearing(name)...)
			body := strings.ToLower(a.body)
			if strings.Contains(body, "login") && name == "shop" || strings.Contains(body, "zebra") && !strings.Contains(c.path, "zebra") && name == "bank" {
				t.Errorf("%s is shown by %s %s %s: %s", name, c.method, c.path, c.body, a.body)
			}
		}
		hash := s.do("POST", "/v1/call/service/hash", "[]", bearing(name)...).body
		for other, same := range hashes {
			if same == hash {
				t.Errorf("%s and %s have the hash %s", name, other, hash)
			}
		}
		hashes[name] = hash
		tag := s.do("GET", "/openrpc.json", "", bearing(name)...).header.Get("ETag")
		if !strings.Contains(hash, strings.Trim(tag, `"`)) {
			t.Errorf("%s: the document's tag is %s, and the hash %s", name, tag, hash)
		}
	}
	for name, want := range map[string]string{"bank": `"Bank.Login"`, "shop": `"Shop.Zebra"`} {
		if a := s.do("POST", "/v1/call/syscall/list", "{}", bearing(name)...); !strings.Contains(a.body, want) {
			t.Errorf("%s is shown %s", name, a.body)
		}
	}
}

// A caller learns nothing about a syscall that it may not call: describing it, and calling it
// with parameters that make no sense, is a 403.
func TestWhatMayNotBeCalledIsNotDescribed(t *testing.T) {
	guard, _ := tokens(t, map[string]principal.Grant{"shop": {Allow: []string{"Shop.*"}}})
	s := open(t, siteOptions{guard: guard})
	for _, c := range []struct{ path, body string }{
		{"/v1/call/syscall/describe", `{"name":"Echo"}`},
		{"/v1/call/sys/describe", `{"name":"Echo"}`},
		{"/v1/call/kernel/echo", `{"message":1}`},
		{"/v1/call/kernel/echo", `[1,2,3]`},
	} {
		a := s.do("POST", c.path, c.body, bearing("shop")...)
		if a.status != 403 || !strings.Contains(a.body, `may not call Echo`) || strings.Contains(a.body, "guidance") {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.body)
		}
	}
}

// A stream belongs to the principal that began it: for others its id does not exist.
func TestAStreamIsResumedByItsPrincipalOnly(t *testing.T) {
	guard, _ := tokens(t, map[string]principal.Grant{"one": {Preset: principal.Agent}, "two": {Preset: principal.Agent}})
	s := open(t, siteOptions{guard: guard})
	a := s.do("POST", "/v1/call/kernel/ping", `{"payload":"mine"}`, append(bearing("one"), "Accept", "text/event-stream")...)
	id := a.header.Get("Kernos-Stream")
	if id == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if a := s.do(method, "/v1/streams/"+id, "", bearing("two")...); a.status != 410 || strings.Contains(a.body, "mine") {
			t.Errorf("%s by another token: %d %s", method, a.status, a.body)
		}
	}
	if a := s.do("GET", "/v1/streams/"+id, "", bearing("one")...); a.status != 200 || !strings.Contains(a.body, "mine") {
		t.Errorf("by the same token: %d %s", a.status, a.body)
	}
}
