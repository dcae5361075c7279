package attack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A token reaches no server of this machine, whichever way it asks, and fetches nothing at all if
// it may not call Http.Fetch. The owner reaches it.
func TestServersOfThisMachineAreOutOfReach(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	plain := httptest.NewServer(server.Config.Handler)
	defer plain.Close()
	w := open(t)
	agent, denied := w.token("agent", ""), w.token("denied", `"preset":"agent","deny":["Http.*"]`)
	fetch := fmt.Sprintf(`{"url":%q}`, plain.URL)
	pointer := fmt.Sprintf(`{"key":"k","valueRef":{"scheme":"https","authority":%q,"path":"/"}}`, strings.TrimPrefix(server.URL, "https://"))
	for _, c := range []struct {
		who  string
		o    outcome
		want string
	}{
		{"an agent fetches", w.call(agent, "Http.Fetch", fetch), "Operation not allowed"},
		{"an agent follows a pointer", w.call(agent, "Memory.Set", pointer), "Could not fetch"},
		{"a denied token fetches", w.call(denied, "Http.Fetch", fetch), "it is denied Http.*"},
		{"a denied token follows a pointer", w.call(denied, "Memory.Set", pointer), "may not call Http.Fetch"},
	} {
		if c.o.code == 0 || !strings.Contains(c.o.text, c.want) {
			t.Errorf("%s: %v", c.who, c.o)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests of tokens arrived", n)
	}
	if o := w.owner("Http.Fetch", fetch); o.code != 0 || requests.Load() != 1 {
		t.Errorf("the owner: %v", o)
	}
}
