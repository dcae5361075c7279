package history

import (
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
)

// The attack: a second connection sends a reply and an error for another's request, before the
// real reply. They are drawn as claims, and neither answers the request nor ends its time.
func TestClaimsAreDrawnAsClaims(t *testing.T) {
	j := new(memoryJournal)
	reply := entry(t, 1001, kernel.In, said("reply", "Bank.Pay", `{"paid":true}`, "forged<pay@w"))
	failure := entry(t, 1002, kernel.In, said("error", "Bank.Pay", `{"code":500,"message":"No money"}`, "denied<pay@w"))
	reply.Claim, reply.Principal, reply.Name, reply.Wire = true, "01", "mallory", "ws"
	failure.Claim, failure.Principal, failure.Name, failure.Wire = true, "01", "mallory", "ws"
	request := entry(t, 1000, kernel.In, said("command", "Bank.Pay", `{}`, "pay@w"))
	answer := entry(t, 1050, kernel.Out, said("reply", "Bank.Pay", `{"paid":false}`, "paid<pay@w"))
	request.Principal, request.Name, request.Wire = "02", "alice", "http"
	answer.Principal, answer.Name, answer.Wire = "02", "alice", "http"
	j.add(request, reply, failure, answer)
	k := kerneltest.Of(t, nil, Module(j, nil))
	for format, want := range map[string]string{
		"json": `{"nodes":[{"id":"pay","kind":"command","type":"Bank.Pay","seq":1,"at":1000,"timestamp":1735000000000,"principal":"alice","wire":"http"},` +
			`{"id":"forged","kind":"reply","type":"Bank.Pay","seq":2,"at":1001,"timestamp":1735000000000,"principal":"mallory","wire":"ws","claim":true},` +
			`{"id":"denied","kind":"error","type":"Bank.Pay","seq":3,"at":1002,"timestamp":1735000000000,"code":500,"principal":"mallory","wire":"ws","claim":true},` +
			`{"id":"paid","kind":"reply","type":"Bank.Pay","seq":4,"at":1050,"timestamp":1735000000000,"duration":50,"principal":"alice","wire":"http"}],` +
			`"edges":[{"from":"pay","to":"forged"},{"from":"pay","to":"denied"},{"from":"pay","to":"paid"}],"roots":["pay"]}`,
		"tree": "▶ Bank.Pay  1970-01-01 00:00:01.000Z  pay  alice\n" +
			"├─ ! Bank.Pay reply, claimed  +1ms  forged  mallory\n" +
			"├─ ! Bank.Pay error, claimed 500 No money  +2ms  denied  mallory\n" +
			"└─ ✓ reply  50ms  paid  alice\n",
		"mermaid": "graph TD\n" +
			`  n1["Bank.Pay<br/>alice<br/>pay"]:::command` + "\n" +
			`  n2["Bank.Pay reply, claimed<br/>mallory<br/>forged"]:::claim` + "\n" +
			`  n3["Bank.Pay error, claimed<br/>mallory<br/>denied"]:::claim` + "\n" +
			`  n4(["Bank.Pay ✓<br/>alice<br/>paid"]):::reply` + "\n" +
			"  n1 --> n2\n  n1 --> n3\n  n1 -. \"50ms\" .-> n4\n" + mermaid.claims + mermaidClasses,
	} {
		_, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Graph", `{"correlationId":"w","format":"`+format+`"}`))
		text := string(got.Data)
		if format != "json" {
			text = jsonscan.Unquote(got.Data)
		}
		if text != want {
			t.Errorf("%s: got\n%s\nwant\n%s", format, text, want)
		}
	}
	_, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Graph", `{"correlationId":"w","format":"dot"}`))
	if text := jsonscan.Unquote(got.Data); strings.Count(text, `claimed\nmallory`) != 2 || strings.Count(text, "✓") != 1 || strings.Count(text, "style=dashed,label") != 1 {
		t.Errorf("dot: %s", text)
	}
	for of, want := range map[string]string{
		`"mallory"`: "◌ not in this graph  pay\n" +
			"├─ ! Bank.Pay reply, claimed  forged  mallory\n" +
			"└─ ! Bank.Pay error, claimed 500 No money  denied  mallory\n",
		`["02","owner"]`: "▶ Bank.Pay  1970-01-01 00:00:01.000Z  pay  alice\n└─ ✓ reply  50ms  paid  alice\n",
	} {
		_, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Graph", `{"correlation":"w","format":"tree","principal":`+of+`}`))
		if text := jsonscan.Unquote(got.Data); text != want {
			t.Errorf("of %s: got\n%s\nwant\n%s", of, text, want)
		}
	}
	if _, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Graph", `{"correlation":"w","principal":"bob"}`)); !strings.Contains(string(got.Data), "w has no messages that acted for bob") {
		t.Errorf("of bob: %s", got.Data)
	}
	events, _ := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Watch", `{"from":2,"limit":1}`))
	if want := `{"seq":2,"at":1001,"principal":"mallory","wire":"ws","claim":true,"message":`; len(events) != 1 || !strings.HasPrefix(string(events[0].Data), want) {
		t.Errorf("watch: %v", events)
	}
}
