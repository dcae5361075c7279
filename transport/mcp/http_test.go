package mcp_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// post sends a request of the stateless era, and returns the answer.
func post(t *testing.T, address, method, name, members string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+address+"/mcp", strings.NewReader(request(1, method, members+modernMeta)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name}}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// A handler that overstays its deadline on the goroutine of its request, or ends that goroutine, is answered
// for, and its connection isn't used again.
func TestLateHandlerOverHTTP(t *testing.T) {
	stuck := make(chan struct{})
	_, address := serve(t, func(o *daemon.Options) {
		o.Modules = append(o.Modules, kernel.Module{Name: "fixture", Version: "1.0.0", Summary: "Fixtures.", Syscalls: []kernel.Syscall{
			kernel.Definition{Type: "Fixture.Stuck", Kind: message.KindQuery, Summary: "Doesn't return.", Input: schema.Any, Output: schema.Any, Timeout: time.Millisecond}.
				BindHandler(func(context.Context, message.Message, kernel.Emit) { <-stuck }),
			kernel.Definition{Type: "Fixture.Gone", Kind: message.KindQuery, Summary: "Ends its goroutine.", Input: schema.Any, Output: schema.Any}.
				BindHandler(func(context.Context, message.Message, kernel.Emit) { runtime.Goexit() }),
		}})
	})
	defer close(stuck)
	for name, code := range map[string]string{"Fixture_Stuck": `"code":504`, "Fixture_Gone": `"code":500`} {
		response, got := post(t, address, "tools/call", name, `"name":"`+name+`",`)
		check(t, name, got, `"isError":true`, code)
		if !response.Close {
			t.Errorf("%s: the connection may be used again", name)
		}
	}
}
