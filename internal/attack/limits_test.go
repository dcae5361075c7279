package attack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"kernos/message"
)

// A program can't hold the calls that it serves for longer than a day, nor code for longer than five minutes.
func TestARegisteredTimeoutHasACeiling(t *testing.T) {
	w := open(t)
	l := w.link(w.token("slow", `"preset":"handler","allow":["Syscall.Register"]`))
	const program = `{"name":"Slow.Do","kind":"command","description":"Serve.","inputSchema":{},"outputSchema":{},"timeout":%s}`
	for _, timeout := range []string{"86400001", "9223372036854775807", "9223372036854", "1e300", "0", "-1", `"25h"`} {
		if o := l.ask("Syscall.Register", newID(), fmt.Sprintf(program, timeout)); o.code != 422 || !strings.Contains(o.text, "timeout") {
			t.Errorf("timeout %s: %v", timeout, o)
		}
	}
	for _, time := range []string{"300001", "9223372036854775807", "0", "-1"} {
		data := fmt.Sprintf(`{"name":"Slow.Code","kind":"command","inputSchema":{},"outputSchema":{},"code":"export const handler = () => 1","limits":{"time":%s}}`, time)
		if o := w.owner("Syscall.Register", data); o.code != 422 || !strings.Contains(o.text, "time") {
			t.Errorf("limits.time %s: %v", time, o)
		}
	}
	if o := l.ask("Syscall.Register", newID(), fmt.Sprintf(program, "86400000")); o.code != 0 {
		t.Errorf("a day: %v", o)
	}
}

// The causation of a call that a program serves is of use on the connection that serves it alone: on other wires, the
// same token has its own rights with it.
func TestACausationIsOfUseOnItsConnectionAlone(t *testing.T) {
	w := open(t)
	first := w.token("first", `"preset":"handler","allow":["Echo"]`)
	m, answer := w.serving(w.link(first), message.KindCommand, "First.Do")
	prizes := prizes("x")
	for i, r := range prizes {
		over := w.overWebSocketBecause(first, m.Metadata.ID, r)
		if over.code != 403 {
			t.Errorf("over a WebSocket: %s: %v", r.Type, over)
		}
		if status := w.postBecause(first, m.Metadata.ID, r); status != 403 {
			t.Errorf("over HTTP: %s: %d", r.Type, status)
		}
		line := fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":"0","timestamp":1,"causation":%q}}`+"\n", r.Kind, r.Type, r.Data, m.Metadata.ID)
		status, body := w.post(first, "/v1/messages", line)
		if o := outcomes(t, strings.NewReader(string(body)), 1)[0]; status != 200 || o.code != 403 {
			t.Errorf("in another stream of messages: %s: %d, %v", r.Type, status, o)
		}
		if i == len(prizes)-1 {
			answer()
		}
	}
	echo := request{"Echo", message.KindCommand, `{"message":"hi"}`}
	if o := w.overWebSocketBecause(first, m.Metadata.ID, echo); o.code != 0 {
		t.Errorf("what the token may do itself: %v", o)
	}
	var list struct {
		Records []struct{ Principal string }
	}
	w.must("Message.List", `{"type":"Echo","kind":"command","records":true}`, &list)
	if len(list.Records) != 1 || list.Records[0].Principal != "first" {
		t.Errorf("the records are %+v", list.Records)
	}
}

// overWebSocketBecause calls one method over a WebSocket, because of a message.
func (w *world) overWebSocketBecause(secret, cause string, r request) outcome {
	w.t.Helper()
	r.Data += fmt.Sprintf(`,"kind":%q,"metadata":{"causation":%q}`, r.Kind, cause) // params come last
	return w.overWebSocket(secret, []request{r})[0]
}

// postBecause calls a syscall over HTTP, because of a message, and returns the status.
func (w *world) postBecause(secret, cause string, r request) int {
	w.t.Helper()
	domain, action, _ := strings.Cut(strings.ToLower(string(r.Type)), ".")
	post, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://"+w.address+"/v1/call/"+domain+"/"+action, strings.NewReader(r.Data))
	if err != nil {
		w.t.Fatal(err)
	}
	post.Header.Set("Authorization", "Bearer "+secret)
	post.Header.Set("X-Causation-Id", cause)
	response, err := w.client.Do(post)
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}

// A rule that can't mean anything is refused, with what it may be.
func TestRulesThatMeanNothingAreRefused(t *testing.T) {
	w := open(t)
	for rule, want := range map[string]string{
		`{"match":"*","reach":"web","decide":"deny"}`:               `"network", "file", "program", "code", "others", "settings", "tokens", "*"`,
		`{"match":"*","reach":"Network","decide":"deny"}`:           `"network"`,
		`{"match":"*","reaches":"network","decide":"deny"}`:         "reaches",
		`{"match":"*","kind":"allowed","decide":"allow"}`:           "kind",
		`{"match":"*","reach":"network","decide":"maybe"}`:          "decide",
		`{"match":"Http","reach":"network","decide":"deny"}`:        "Http.*",
		`{"match":"Network.Fetch","reach":"*","decide":"deny"}`:     "Http.Fetch",
		`{"match":"*","when":{"type":"nonsense"},"decide":"allow"}`: "when",
	} {
		if o := w.owner("Session.Create", fmt.Sprintf(`{"policy":[%s]}`, rule)); o.code != 422 || !strings.Contains(o.text, want) {
			t.Errorf("%s: %v", rule, o)
		}
	}
}
