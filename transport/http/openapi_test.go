package http

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// described is what a test reads of /openapi.json.
type described struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string                  `json:"operationId"`
		Parameters  []struct{ Name string } `json:"parameters"`
		Responses   map[string]any          `json:"responses"`
	} `json:"paths"`
}

func describedBy(t *testing.T, s *site, headers ...string) (d described, tag string) {
	t.Helper()
	a := s.do("GET", "/openapi.json", "", headers...)
	if err := json.Unmarshal([]byte(a.body), &d); err != nil || a.status != 200 || !strings.HasPrefix(d.OpenAPI, "3.1.") {
		t.Fatalf("%d %v %.200s", a.status, err, a.body)
	}
	return d, a.header.Get("ETag")
}

// The description has all routes, and nothing that isn't one.
func TestOpenAPIDescribesEachRoute(t *testing.T) {
	s := open(t, siteOptions{})
	d, tag := describedBy(t, s)
	if b := s.do("GET", "/openapi.json", "", "If-None-Match", tag); b.status != 304 || b.body != "" {
		t.Errorf("%d %.200s", b.status, b.body)
	}
	for _, r := range Routes() {
		path := strings.TrimSuffix(strings.NewReplacer("{module}", "kernel", "{method}", "ping", "...}", "}").Replace(r.Path), "{$}")
		for _, method := range r.described() {
			if operation, ok := d.Paths[path][strings.ToLower(method)]; !ok || operation.OperationID == "" || len(operation.Responses) == 0 {
				t.Errorf("%s %s isn't described", method, r.Path)
			}
		}
		if r.Summary == "" {
			t.Errorf("%s has no summary", r.Path)
		}
	}
	ids := make(map[string]string)
	for path, item := range d.Paths {
		for method, operation := range item {
			if other, taken := ids[operation.OperationID]; taken {
				t.Errorf("%s is the id of %s and of %s", operation.OperationID, path, other)
			}
			ids[operation.OperationID] = path
			if strings.HasPrefix(path, "/v1/call/") {
				if a := s.do("POST", path, "[]"); a.name() == "method_not_found" || a.name() == "not_found" {
					t.Errorf("%s is described, and isn't there: %s", path, a.body)
				}
				continue
			}
			if a := s.do(strings.ToUpper(method), strings.NewReplacer("{id}", "none", "{file}", "none.md").Replace(path), ""); a.name() == "method_not_allowed" {
				t.Errorf("%s %s is described, and refused", method, path)
			}
		}
	}
}

// A caller reads about the calls that it may make, as in a list of syscalls. The other routes are the same for all.
func TestOpenAPIDescribesWhatTheCallerMayCall(t *testing.T) {
	guard, _ := tokens(t, map[string]principal.Grant{"bank": {Allow: []string{"Bank.*"}}, "shop": {Allow: []string{"Shop.*"}}})
	reply := func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply([]byte(`1`))) }
	s := open(t, siteOptions{guard: guard, syscalls: []kernel.Syscall{
		raw("Bank.Login", message.KindQuery, reply), raw("Shop.Buy", message.KindCommand, reply),
	}})
	if a := s.do("GET", "/openapi.json", ""); a.status != 401 {
		t.Errorf("without a token: %d", a.status)
	}
	bank, bankTag := describedBy(t, s, bearing("bank")...)
	shop, shopTag := describedBy(t, s, bearing("shop")...)
	login, buy := "/v1/call/bank/login", "/v1/call/shop/buy"
	if bank.Paths[login] == nil || bank.Paths[buy] != nil || shop.Paths[login] != nil || shop.Paths[buy] == nil || bankTag == shopTag {
		t.Errorf("%v\n%v", bank, shop)
	}
	has := func(d described, path, header string) bool {
		for _, p := range d.Paths[path]["post"].Parameters {
			if p.Name == header {
				return true
			}
		}
		return false
	}
	if has(bank, login, "Idempotency-Key") || !has(shop, buy, "Idempotency-Key") || !has(bank, login, "X-Correlation-Id") {
		t.Error("commands take an idempotency key, and queries don't")
	}
}
