package console_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// A connection that is cut resumes where it was: nothing is missing, and nothing is there twice.
func TestTheConnectionIsCut(t *testing.T) {
	w := &world{T: t, home: t.TempDir(), extra: []kernel.Module{formModule()}}
	w.serve()
	relay := newRelay(t, w.daemon.Address)
	w.newPage()
	link, err := w.daemon.ConsoleURL(false)
	if err != nil {
		t.Fatal(err)
	}
	w.enter(strings.Replace(link, w.daemon.Address, relay.address, 1))
	w.goTo("/messages?filter=type:Memory.Set+kind:command")
	set := func(n int) { w.ask("Memory.Set", "command", fmt.Sprintf(`{"key":"k","value":"number %d;"}`, n)) }
	shown := func(n int) string {
		return fmt.Sprintf(`[...document.querySelectorAll('.message')].map((row) => /number (\d+);/.exec(row.textContent)?.[1]).join() === [...Array(%d).keys()].join()`, n)
	}
	n := 0
	for range 3 {
		set(n)
		n++
		w.wait(shown(n))
		relay.cut()
		for range 5 {
			set(n)
			n++
		}
		w.wait(`document.querySelector('[data-testid=status]').dataset.status === "lost"`)
		relay.mend()
		w.wait(shown(n) + ` && !document.querySelector('.gap')`)
	}
}

// A call that is run without a connection isn't sent, and the page offers to send it later: exactly the one that was run.
func TestRunWithoutAConnection(t *testing.T) {
	w := &world{T: t, home: t.TempDir()}
	w.serve()
	relay := newRelay(t, w.daemon.Address)
	w.newPage()
	link, err := w.daemon.ConsoleURL(false)
	if err != nil {
		t.Fatal(err)
	}
	w.enter(strings.Replace(link, w.daemon.Address, relay.address, 1))
	w.wait(`["call", "messages", "workflows", "memory"].length <= performance.getEntriesByType("resource").filter((one) => /view-\w+\.js$/.test(one.name)).length`) // the views don't wait for their first visit
	runs := func(value string) {
		w.goTo("/call")
		w.goTo(`/call/memory/set?data=%7B%22key%22%3A%22n%22%2C%22value%22%3A` + value + `%7D`)
		w.wait(`document.querySelector('[data-testid=run]:enabled')`)
		relay.cut()
		w.wait(`document.querySelector('[data-testid=status]').dataset.status === "lost"`)
		w.press()
		w.wait(`document.querySelector('[data-testid=unsent]')?.textContent.includes("nothing was sent")`)
	}
	runs("1")
	w.wait(`(() => { // it is said in colour, on a page that is grey
		const style = getComputedStyle(document.querySelector("[data-testid=unsent]"));
		return new Set(style.borderLeftColor.match(/\d+/g)).size === 3 && style.backgroundColor !== getComputedStyle(document.querySelector(".ask .actions")).backgroundColor;
	})()`)
	for _, view := range []string{"/workflows", "/workflows/w", "/memory/n", "/messages?filter=milk"} { // which have nothing to show
		w.goTo(view)
		w.wait(`document.querySelector('[data-testid=view] [data-testid=' + location.hash.split(/[/?]/)[1] + '] [data-testid=waiting]')`)
	}
	w.goTo(`/call/memory/set?data=%7B%22key%22%3A%22n%22%2C%22value%22%3A1%7D`)
	w.press()
	w.click(`[data-testid=send-later]`)
	w.wait(`document.querySelector('[data-testid=unsent]')?.textContent.includes("is sent when")`)
	relay.mend()
	w.wait(`document.querySelector('[data-testid=answer]')?.dataset.status === "done"`)
	if got := w.ask("Memory.Get", "query", `{"key":"n"}`); string(got) != "1" {
		t.Errorf("memory has %s", got)
	}
	runs("2") // this one isn't to be sent by itself
	relay.mend()
	w.wait(`document.querySelector('[data-testid=unsent]')?.textContent.includes("is back")`)
	if got := w.ask("Memory.Get", "query", `{"key":"n"}`); string(got) != "1" {
		t.Errorf("memory has %s", got)
	}
	w.click(`[data-testid=send-later]`)
	w.wait(`!document.querySelector('[data-testid=unsent]') && document.querySelector('[data-testid=answer]')?.dataset.status === "done"`)
	if got := w.ask("Memory.Get", "query", `{"key":"n"}`); string(got) != "2" {
		t.Errorf("memory has %s", got)
	}
}

// When what can be called changes, the page reports what, and keeps what was typed.
func TestTheMethodsChange(t *testing.T) {
	w := open(t, formModule())
	w.goTo("/call/form/fill")
	w.fill(`[data-field="/title"] textarea`, "typed")
	module := formModule()
	more, fill := module.Syscalls[1], module.Syscalls[0]
	more.Type = "Form.More"
	fill.Input = schema.Parsed([]byte(strings.Replace(everyKind, `"value": {"type": "integer"}`, `"value": {"type": "string"}`, 1))) // in a definition that it refers to
	listed := `[...document.querySelectorAll('.methods a')].some((a) => a.textContent === "Form.More")`
	for _, c := range []struct {
		remove    []message.Type
		add       []kernel.Syscall
		told, see string
	}{
		{nil, []kernel.Syscall{more}, "Form.More is new", listed},
		{[]message.Type{"Form.Fill"}, []kernel.Syscall{fill}, "Form.Fill has changed", listed},
		{[]message.Type{"Form.More"}, nil, "Form.More is gone", "!" + listed},
	} {
		var add []kernel.Addition
		for _, s := range c.add {
			add = append(add, kernel.Addition{Module: module, Syscall: s})
		}
		if _, err := w.daemon.Kernel().Registry().Change(c.remove, add...); err != nil {
			t.Fatal(err)
		}
		w.click(`[data-testid=run]`) // each answer has the hash of what can be called
		w.wait(fmt.Sprintf(`document.querySelector('[data-testid=changes] .spread')?.textContent === %q`, c.told))
		w.wait(`document.querySelector('[data-field="/title"] textarea')?.value === "typed" && ` + c.see)
		w.click(`[data-testid=changes] button`)
		w.wait(`!document.querySelector('[data-testid=changes]') && document.querySelector('[data-testid=answer]')?.dataset.status === "done"`)
	}

	// A view whose method is gone isn't there: neither in the navigation, nor by its key or its link.
	const views = `[...document.querySelectorAll('.nav a')].map((a) => a.firstChild.textContent).join()`
	w.goTo("/memory/a/b")
	w.wait(`document.querySelector('[data-view=memory] [data-testid=entry]') && ` + views + ` === "Call,Messages,Workflows,Memory"`)
	if _, err := w.daemon.Kernel().Registry().Change([]message.Type{"Memory.List", "Message.Graph"}); err != nil {
		t.Fatal(err)
	}
	eval[bool](w, `(() => { location.hash = "/memory/a/c"; return true; })()`) // what it asks for has the new hash
	w.wait(views + ` === "Call,Messages" && document.querySelector('[data-view=call] .ask .empty')`)
	eval[bool](w, `(() => { document.activeElement.blur(); return true; })()`)
	w.do(chromedp.KeyEvent("?"))
	w.wait(`[...document.querySelectorAll('[data-testid=sheet][open] dd')].map((d) => d.textContent).filter((text) => text.startsWith("go to ")).join() === "go to a method, key, message or action,go to Call,go to Messages"`)
}

// A relay passes connections on to a server until it is cut.
type relay struct {
	address, to string

	mu     sync.Mutex
	broken bool
	conns  []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: l.Addr().String(), to: to}
	t.Cleanup(func() {
		_ = l.Close()
		r.cut()
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := r.dial(in)
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return r
}

// dial connects to the server for a connection that has come in, unless the relay is cut.
func (r *relay) dial(in net.Conn) (out net.Conn, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return nil, net.ErrClosed
	}
	out, err = net.Dial("tcp", r.to)
	if err == nil {
		r.conns = append(r.conns, in, out)
	}
	return out, err
}

// cut ends all connections, and lets none through until mend.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

// mend lets connections through again.
func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = false
}

// A server that goes away and comes back finds the page where it was, and the page reports what it missed.
func TestTheServerRestarts(t *testing.T) {
	address := testkit.Address(t)
	w := &world{T: t, home: t.TempDir(), web: daemon.Web{Address: address}}
	w.serve()
	w.newPage()
	w.signIn()
	set := func(value string) { w.ask("Memory.Set", "command", `{"key":"a","value":"`+value+`"}`) }
	texts := `[...document.querySelectorAll('.message, .gap')].map((row) => row.matches(".gap") ? "gap" : /"value":"(\w+)/.exec(row.textContent)[1]).join(" ")`
	lost := func() {
		t.Helper()
		w.daemon.Stop()
		w.wait(`document.querySelector('[data-testid=status]').dataset.status === "lost"`)
		w.wait(`/^Connection lost \d+ s ago/.test(document.querySelector('[data-testid=status]').textContent)`)
	}
	w.goTo("/messages?filter=type:Memory.Set+kind:command")
	w.wait(`document.querySelector('.column .empty')`) // no message matches yet, and none is missed later
	lost()
	w.serve()
	set("first")
	w.wait(texts + ` === "first"`)

	// Meanwhile the page is dim, and can be read.
	lost()
	w.loadAxe()
	for _, theme := range []string{"light", "dark"} {
		w.theme(theme)
		w.wait(`getComputedStyle(document.querySelector(".message .kind")).color === getComputedStyle(document.querySelector(".message .faint")).color`)
		w.axe("a lost connection, " + theme)
	}

	// The journal drops messages that the page has not seen: a gap stands in their place.
	w.retention, w.web.Address = daemon.Retention{MaxBytes: 64 << 10}, ""
	w.serve() // at an address that the page doesn't know
	var seen, left struct{ FirstSeq, LastSeq uint64 }
	w.read("Message.Stats", &seen)
	for left.FirstSeq <= seen.LastSeq+1 {
		noise := make([]byte, 6<<10) // which no journal makes smaller
		_, _ = rand.Read(noise)
		w.ask("Ping", "query", fmt.Sprintf(`{"payload":"%x"}`, noise))
		w.read("Message.Stats", &left)
	}
	w.daemon.Stop()
	w.retention, w.web.Address = daemon.Retention{}, address
	w.serve()
	set("last")
	w.wait(texts + ` === "first gap last"`)
	w.wait(`/^[\d,]+ messages are missing here$/.test(document.querySelector('.gap').textContent)`)

	w.holdsNothing("http://" + address + "/")
	w.do(chromedp.Reload()) // it is still let in
	w.wait(`document.querySelector('[data-testid=status]')?.dataset.status === "online"`)

	// Revoking the token ends the page's sign-in, and says how to get in again.
	var all struct{ Tokens []struct{ Name string } }
	w.read("Token.List", &all)
	for _, token := range all.Tokens {
		if strings.HasPrefix(token.Name, "console-") {
			w.ask("Token.Revoke", "command", fmt.Sprintf(`{"name":%q}`, token.Name))
		}
	}
	w.wait(`document.querySelector('[data-testid=status]').dataset.status === "signed-out" && document.querySelector('[data-testid=status]').textContent.includes("kernos console")`)
}
