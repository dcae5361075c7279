package console_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"kernos/message"
)

// send calls a syscall as part of a workflow, as a sender does whose clock is wrong. The outcome may be an error.
func (w *world) send(id, cause, workflow string, kind message.Kind, t message.Type, data string) {
	w.Helper()
	m := message.Message{Kind: kind, Type: t, Data: json.RawMessage(data)}
	m.Metadata.ID, m.Metadata.Causation, m.Metadata.Correlation = message.ID(id), message.ID(cause), workflow
	m.Metadata.Timestamp = 1
	if _, err := w.daemon.Call(w.Context(), m, nil); err != nil {
		w.Fatal(err)
	}
}

func TestWorkflows(t *testing.T) {
	w := open(t)
	w.goTo("/workflows")
	w.send("first", "", "shopping", "command", "Memory.Set", `{"key":"notes/1","value":"milk"}`)
	w.send("second", "first", "shopping", "query", "Memory.Get", `{"key":"nope"}`)
	w.goTo("/call")
	w.goTo("/workflows")
	w.click(`[data-testid=recent] a[href="#/workflows/shopping"]`)
	// A command, its event and its reply; a query and its error.
	w.wait(`document.querySelectorAll('[data-testid=graph] [data-testid=node]').length === 5`)
	w.wait(`[...document.querySelectorAll('.node')].every((node) => node.offsetWidth === 112 && node.offsetHeight === 30)`)

	for i := range 3 { // while it is open
		w.send(fmt.Sprint("again", i), "first", "shopping", "query", "Memory.List", `{}`)
	}
	w.wait(`[...document.querySelectorAll('.node')].filter((node) => node.textContent.includes("×3")).length === 1`)
	w.wait(`document.querySelector('[data-testid=workflows]').dataset.messages === "11"`)
	w.click(`.node.folded`)
	w.wait(`document.querySelectorAll('.node').length === 11`)

	w.click(`[data-testid=why]`)
	w.wait(`[...document.querySelectorAll('.node:not(.dim)')].map((node) => node.querySelector(".type").textContent).join() === "Memory.Set,Memory.Get,Memory.Get"`)
	w.wait(`getComputedStyle(document.querySelector('.node.dim')).opacity === "0.4"`)
	w.click(`.node[data-failed] + .node[data-failed]`)
	w.wait(`document.querySelectorAll('[data-testid=inspector] .one').length === 2`)
	for _, form := range []string{"tree", "timeline"} {
		w.click(`[data-testid=as-` + form + `]`)
		w.wait(`document.querySelectorAll('.rows [data-testid=node]').length === 11`)
	}

	// A workflow by the id of the message that began it, which doesn't name it.
	w.send("alone", "", "", "command", "Memory.Set", `{"key":"a","value":1}`)
	w.goTo("/workflows/alone")
	w.wait(`document.querySelector('[data-testid=workflows]')?.dataset.messages === "3"`)
	w.send("later", "alone", "", "command", "Memory.Set", `{"key":"a","value":2}`)
	w.wait(`document.querySelector('[data-testid=workflows]')?.dataset.messages === "6"`)

	w.goTo("/workflows/nope")
	w.wait(`document.querySelector('[data-testid=problem]')?.textContent.includes("Workflow not found")`)
}

// The latest workflows are those of more than one request, and those that have a name. They are shown as they begin, with the
// time when they were recorded: a sender may give any.
func TestLatestWorkflows(t *testing.T) {
	w := open(t)
	w.goTo("/workflows")
	w.wait(`document.querySelector('.empty')?.textContent.includes("led to")`)
	w.send("alone", "", "", "command", "Memory.Set", `{"key":"a","value":1}`)
	w.send("first", "", "shopping", "command", "Memory.Set", `{"key":"a","value":2}`)
	w.wait(`document.querySelectorAll('[data-testid=recent] li').length === 1`)
	w.send("effect", "alone", "", "query", "Memory.Get", `{"key":"a"}`)
	w.send("second", "first", "shopping", "query", "Memory.Get", `{"key":"a"}`)
	for range 2 {
		w.wait(`[...document.querySelectorAll('[data-testid=recent] .clip')].map((name) => name.textContent).join() === "2 requests, shopping,2 requests, alone"`)
		w.wait(`[...document.querySelectorAll('[data-testid=recent] li span:first-child')].every((time) => time.textContent !== new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" }).format(0) + ".001")`) // which the senders give
		w.goTo("/call")
		w.goTo("/workflows")
	}
	w.click(`[data-testid=recent] a[href="#/workflows/shopping"]`)
	w.wait(`document.querySelectorAll('[data-testid=graph] [data-testid=node]').length > 0`)
	w.click(`[data-testid=as-timeline]`)
	w.wait(`/20[2-9]\d/.test(document.querySelector('.foot')?.textContent)`)
	w.goTo("/workflows/shopping?at=first")
	w.wait(`/20[2-9]\d/.test(document.querySelector('[data-testid=inspector] .facts')?.textContent)`)
}

func TestSendAgain(t *testing.T) {
	w := open(t)
	w.send("keep", "", "w", "command", "Memory.Set", `{"key":"n","value":1}`)
	w.send("fetch", "", "w", "command", "Http.Fetch", `{"url":"http://127.0.0.1:1/"}`)
	w.goTo("/workflows/w?at=keep")
	w.click(`[data-testid=again]`)
	w.wait(`document.querySelector('[data-testid=sent]')?.textContent === "Sent again"`)
	if got := w.ask("Memory.Get", "query", `{"key":"n"}`); string(got) != "1" {
		t.Errorf("memory has %s", got)
	}
	w.goTo("/workflows/w?at=fetch")
	w.wait(`document.querySelector('[data-testid=inspector] h2')?.textContent === "Http.Fetch"`)
	w.click(`[data-testid=again]`)
	w.wait(`document.querySelector('[data-testid=confirm]') && !document.querySelector('[data-testid=sent]')`)
	w.click(`[data-testid=confirmed]`)
	w.wait(`document.querySelector('[data-testid=sent].problem')`) // it was sent, and failed as before
	w.click(`[data-testid=inspector] a[href^="#/call/http/fetch?data="]`)
	w.wait(`document.querySelector('[data-field="/url"] [data-testid=input]')?.value === "http://127.0.0.1:1/" && document.querySelector('.kind')`)
	w.click(`[data-testid=run]`) // edited, it asks as well
	w.wait(`document.querySelector('[data-testid=confirm]') && !document.querySelector('[data-testid=answer]')`)
}

func TestLargeWorkflow(t *testing.T) {
	w := open(t)
	w.ask("Memory.Set", "command", `{"key":"n","value":1}`)
	w.send("root", "", "large", "query", "Memory.List", `{}`)
	for i := range 2500 { // each with its reply, ten branches deep
		cause := "root"
		if i%10 != 0 {
			cause = fmt.Sprint("m", i-1)
		}
		w.send(fmt.Sprint("m", i), cause, "large", "query", []message.Type{"Memory.Get", "Memory.List"}[i%2], []string{`{"key":"n"}`, `{}`}[i%2])
	}
	w.goTo("/workflows/large?at=m7")
	w.wait(`document.querySelector('[data-testid=workflows]')?.dataset.messages === "5002"`)
	w.wait(`document.querySelectorAll('.node').length > 10`)
	// It is drawn again whole, in another form and back, until the frame with it is painted.
	took := eval[float64](w, `(async () => {
		const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
		document.querySelector('[data-testid=as-tree]').click();
		await painted();
		const began = performance.now();
		document.querySelector('[data-testid=as-graph]').click();
		while (!document.querySelector('.node')) await painted();
		await painted();
		return performance.now() - began;
	})()`)
	nodes := eval[int](w, `document.querySelectorAll('.node').length`)
	t.Logf("5,002 messages are drawn in %.0f ms; %d are in the page", took, nodes)
	if nodes > 500 {
		t.Errorf("%d nodes are in the page: only those in sight should be", nodes)
	}

	// Back in time: pages of earlier messages come before the rows in sight and don't move them; neither
	// does a new message, nor that a message further down is looked at.
	w.goTo("/messages/m2499?filter=corr:large")
	w.wait(`document.querySelector('.message[aria-current]') && document.querySelector('[data-testid=rows]').ariaRowCount === "200"`)
	for shown := 400; shown <= 600; shown += 200 {
		eval[bool](w, `document.querySelector('[data-testid=rows]').scrollTop = 30, true`) // the first row isn't in sight yet
		w.wait(`document.querySelector('[aria-rowindex="3"]')`)
		eval[bool](w, `(() => {
			const at = document.querySelector('[aria-rowindex="3"] a');
			window.kept = {address: at.href, top: at.getBoundingClientRect().top + 10};
			document.querySelector('[data-testid=rows]').scrollTop = 20;
			return true;
		})()`)
		w.wait(fmt.Sprintf(`document.querySelector('[data-testid=rows]').ariaRowCount === "%d"`, shown))
		w.wait(`[...document.querySelectorAll('.message')].find((row) => row.href === kept.address)?.getBoundingClientRect().top === kept.top`)
	}
	w.send("late", "", "large", "query", "Memory.List", `{}`)
	w.wait(`document.querySelector('[data-testid=new]')?.textContent === "2 new" && [...document.querySelectorAll('.message')].find((row) => row.href === kept.address)?.getBoundingClientRect().top === kept.top`)
	w.click(`[data-testid=new]`)
	w.wait(`[...document.querySelectorAll('.message')].some((row) => row.hash.includes("/late?"))`)
}
