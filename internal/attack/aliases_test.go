package attack

import (
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

// What is sent under another name is kept as what it is: a secret is redacted in every record, also within the calls of
// others, and isn't kept in a job.
func TestAliasesHideNothingFromRedaction(t *testing.T) {
	w := open(t)
	const hidden = "tiger-stripes-4711"
	w.must("Crypto.Seal", `{"secret":"`+hidden+`"}`, nil)
	w.must("Syscall.Call", `{"name":"Crypto.Seal","payload":{"secret":"`+hidden+`"}}`, nil)
	for what, data := range map[message.Type]string{
		"Job.Start":    `{"type":"Crypto.Seal","data":{"secret":"` + hidden + `"}}`,
		"Syscall.Call": `{"name":"Job.Start","payload":{"steps":[{"id":"a","type":"Crypto.Seal","data":{"secret":"` + hidden + `"}}]}}`,
		"VFS.Write":    `{"path":"os://memory/vault/stripes","content":"` + hidden + `"}`,
		"Crypto.Seal":  `{"secret":"` + hidden + `","nonsense":1}`,
	} {
		if o := w.owner(what, data); o.code != 422 && o.code != 403 || strings.Contains(o.String(), hidden) {
			t.Errorf("%s %s: %v", what, data, o)
		}
	}
	w.owner("Syscall.Test", `{"name":"Probe.Run","kind":"command","inputSchema":{},"outputSchema":{},"code":"export const handler = () => kernos.call('Crypto.Seal', {secret: '`+hidden+`'})"}`)
	list := w.owner("Message.List", `{"limit":1000,"records":true}`).String()
	if code := strings.Count(list, "kernos.call('Crypto.Seal', {secret: '"+hidden); strings.Count(list, hidden) != code || !strings.Contains(list, `"Crypto.Seal"`) {
		t.Errorf("the journal has the secret: %s", list)
	}
	w.must("Job.Start", `{"type":"Notify.Send","data":{"content":"tea"},"delay":"1h"}`, nil)
	if list := w.owner("Message.List", `{"type":"Job.Start","kind":"command"}`).String(); !strings.Contains(list, `{"name":"Notify.Send","payload":{"text":"tea"},"delay":"1h"}`) || !strings.Contains(list, `"payload":{"plaintext":"[redacted]"}`) {
		t.Errorf("a job is recorded as %s", list)
	}
	if list := w.owner("Message.List", `{"type":"Crypto.Seal","kind":"command"}`).String(); !strings.Contains(list, `"plaintext":`) || strings.Contains(list, `"secret":`) {
		t.Errorf("requests are recorded as %s", list)
	}
}

// Rights are those of what the call is, under whatever names its parameters come.
func TestAliasesHideNothingFromRights(t *testing.T) {
	w := open(t)
	w.must("Memory.Set", `{"key":"private/a","value":"milk"}`, nil)
	w.must("Memory.Set", `{"key":"ci/a","value":"tea"}`, nil)
	ci := w.token("ci", `"preset":"agent","files":["os://memory/ci"],"memory":["ci"],"deny":["Crypto.*"]`)
	for what, data := range map[message.Type]string{
		"VFS.Read":     `{"path":"os://memory/private/a"}`,
		"VFS.Write":    `{"path":"os://memory/private/b","content":"x"}`,
		"VFS.Delete":   `{"path":"os://memory/private/a"}`,
		"Syscall.Call": `{"name":"Crypto.Open","payload":{"ciphertext":"a"}}`,
		"Job.Start":    `{"type":"Token.Create","data":{"name":"forged"}}`,
	} {
		if o := w.call(ci, what, data); o.code != 403 && o.code != 404 {
			t.Errorf("%s %s: %v", what, data, o)
		}
	}
	if o := w.call(ci, "VFS.Read", `{"path":"os://memory/ci/a"}`); o.code != 0 {
		t.Error(o)
	}
	if o := w.call(ci, "Syscall.Call", `{"name":"Syscall.Call","payload":{"name":"Crypto.Seal"}}`); o.code != 422 {
		t.Errorf("it calls itself: %v", o)
	}
}

// Nothing that was sent is overwritten, and two names for one parameter are refused.
func TestAliasesOverwriteNothing(t *testing.T) {
	w := open(t)
	for what, data := range map[message.Type]string{
		"Job.Start":      `{"name":"Echo","type":"Memory.Delete","payload":{"message":"a"}}`,
		"Syscall.Call":   `{"type":"Echo","name":"Memory.Delete","data":{"message":"a"}}`,
		"VFS.Delete":     `{"uri":"os://memory/a","path":"os://memory/b"}`,
		"Job.Status":     `{"id":"a","job_id":"b"}`,
		"Crypto.Seal":    `{"plaintext":"a","secret":"b"}`,
		"Message.Replay": `{"type":"Echo"}`, // has no such name
		"Memory.Get":     `{"path":"a"}`,
	} {
		if o := w.owner(what, data); o.code != 422 {
			t.Errorf("%s %s: %v", what, data, o)
		}
	}
}

// A key is for one request, whatever names its parameters have.
func TestAliasesAreOneRequestForAKey(t *testing.T) {
	w := open(t)
	link := w.ownersLink()
	send := func(data string) outcome {
		link.send(fmt.Sprintf(`{"kind":"command","type":"Job.Start","data":%s,"metadata":{"id":%q,"timestamp":1,"idempotencyKey":"once"}}`, data, newID()))
		return link.next().outcome()
	}
	first := send(`{"name":"Echo","payload":{"message":"a"},"delay":"1h"}`)
	for _, data := range []string{`{"type":"Echo","data":{"message":"a"},"delay":"1h"}`, `{"delay":"1h","payload":{"message":"a"},"type":"Echo"}`} {
		if again := send(data); first.code != 0 || again.String() != first.String() {
			t.Errorf("%s: %v and %v", data, first, again)
		}
	}
	if other := send(`{"type":"Echo","data":{"message":"b"},"delay":"1h"}`); other.code == 0 {
		t.Errorf("another request has the same key: %v", other)
	}
}

// The rules of a session, and the person who is asked, see what is called and not how it was written.
func TestAliasesHideNothingFromApprovals(t *testing.T) {
	w := open(t)
	p := w.asker(func(data string) outcome { return w.owner("Session.Create", data) })
	for _, decision := range []string{"deny", "allow"} {
		call := p.asks("Syscall.Call", `{"name":"Notify.Send","payload":{"content":"`+decision+`"}}`)
		asked := w.owner("Session.Messages", fmt.Sprintf(`{"session":%q}`, p.session)).String()
		if !strings.Contains(asked, `"name":"Notify.Send","args":{"text":"`+decision+`"}`) {
			t.Errorf("it was asked about %s", asked)
		}
		w.must("Session.Decide", p.decision(call, `"decision":"`+decision+`"`), nil)
		result := p.over()
		if list := w.owner("Notify.List", `{}`).String(); strings.Contains(list, `"text":"`+decision+`"`) != (decision == "allow") {
			t.Errorf("%s: %s after %s", decision, list, result)
		}
	}
}
