package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/message"
)

// overMCP calls syscalls as tools, and returns their outcomes.
func (w *world) overMCP(secret string, requests []request) []outcome {
	w.t.Helper()
	session := ""
	send := func(body string) json.RawMessage {
		r, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://"+w.address+"/mcp", strings.NewReader(body))
		if err != nil {
			w.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		response, err := w.client.Do(r)
		if err != nil {
			w.t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		session = response.Header.Get("Mcp-Session-Id")
		var text json.RawMessage
		if err := json.NewDecoder(response.Body).Decode(&text); err != nil {
			w.t.Fatalf("%s: %d %v", body, response.StatusCode, err)
		}
		return text
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	id := session
	found := make([]outcome, len(requests))
	for i, r := range requests {
		session = id
		answer := send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, i+2, r.Type, r.Data))
		var a struct {
			Error  *struct{ Message string }
			Result struct{ IsError bool }
		}
		if err := json.Unmarshal(answer, &a); err != nil {
			w.t.Fatal(err)
		}
		found[i].data = answer
		if a.Error != nil {
			found[i] = outcome{code: 422, text: a.Error.Message}
		} else if a.Result.IsError {
			found[i] = outcome{code: 422, text: string(answer)}
		}
	}
	return found
}

// Every failure is recorded, on every wire, also of calls whose successes aren't: each error that a caller gets answers a
// recorded request of its type.
//
// Clauses: M24-10.1-1
func TestEveryFailureIsRecorded(t *testing.T) {
	w := open(t)
	console, agent := w.token("screen", `"preset":"console"`), w.token("model", `"preset":"agent"`)
	requests := []request{
		{"No.Such", message.KindQuery, `{}`},
		{"Syscall.Describe", message.KindQuery, `{"name":"No.Such"}`},
		{"Session.Get", message.KindQuery, `{"session":"absent"}`},
		{"Job.Status", message.KindQuery, `{"jobId":"absent"}`},
	}
	unrecorded := 0
	for _, s := range w.served() {
		if s.Recording == kernel.InWorkflows {
			unrecorded++
		}
		for _, data := range []string{`{"nonsense":1}`, `[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]`} {
			requests = append(requests, request{s.Type, s.Kind, data})
		}
	}
	if unrecorded == 0 {
		t.Fatal("the test shows nothing: every success is recorded")
	}
	for name, send := range map[string]func([]request) []outcome{
		"unix":      w.overUnix,
		"messages":  func(all []request) []outcome { return w.overMessages(console, all) },
		"websocket": func(all []request) []outcome { return w.overWebSocket(console, all) },
		"http": func(all []request) (got []outcome) {
			for _, r := range all {
				got = append(got, w.call(console, r.Type, r.Data))
			}
			return got
		},
		"mcp": func(all []request) []outcome { return w.overMCP(agent, all) },
	} {
		before := w.failures()
		want, failed := map[message.Type]int{}, 0
		for i, o := range send(requests) {
			if o.code != 0 {
				want[requests[i].Type]++
				failed++
			}
		}
		if failed < len(requests)/2 {
			t.Errorf("%s: the test shows little: %d of %d requests failed", name, failed, len(requests))
		}
		after := w.failures()
		for what, n := range want {
			if got := after[what] - before[what]; got != n {
				t.Errorf("%s: %d failures of %s are recorded with their requests, and there were %d", name, got, what, n)
			}
		}
	}
}

// failures counts the recorded errors whose requests are recorded too, by type.
func (w *world) failures() map[message.Type]int {
	w.t.Helper()
	count := map[message.Type]int{}
	for cursor := ""; ; {
		var page struct {
			Failures []struct {
				Error   struct{ Type message.Type }
				Request *struct{ Type message.Type }
			}
			Cursor string
		}
		w.must("Message.List", fmt.Sprintf(`{"failed":true,"limit":1000%s}`, cursor), &page)
		for _, f := range page.Failures {
			if f.Request != nil {
				count[f.Request.Type]++
			}
		}
		if page.Cursor == "" {
			return count
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, page.Cursor)
	}
}
