package console_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"

	"kernos/daemon"
	"kernos/internal/testkit"
)

// works uses the page that is signed in under an address: a call, a stream, a reload, and signing out.
func (w *world) works(under string) {
	w.Helper()
	if at := eval[string](w, `location.href.split("#")[0]`); at != under {
		w.Fatalf("the page is at %s, not at %s", at, under)
	}
	w.goTo("/call/memory/set?data=" + url.QueryEscape(`{"key":"a","value":"through the door"}`))
	w.wait(`document.querySelector('[data-field="/key"] textarea')?.value === "a"`)
	w.run("done")
	w.goTo("/messages")
	w.wait(`[...document.querySelectorAll('.message')].some((row) => row.textContent.includes("through the door"))`)
	w.do(chromedp.Reload())
	w.wait(`document.querySelector('.message')`)
	w.holdsNothing(under)
	if found := eval[int](w, `performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(`+fmt.Sprintf("%q", under)+`) && !e.name.startsWith("data:")).length`); found > 0 {
		w.Errorf("%d requests went elsewhere", found)
	}
	w.mu.Lock()
	if said := strings.Join(w.said, "\n"); strings.Contains(said, "Content Security Policy") {
		w.Errorf("the page said %s", said)
	}
	w.mu.Unlock()
	eval[bool](w, `[...document.querySelectorAll(".top button")].find((b) => b.textContent === "Sign out").click(), true`)
	w.wait(`document.querySelector('[data-testid=status]').dataset.status === "signed-out"`)
	w.do(chromedp.Reload())
	w.wait(`document.body.textContent.includes("isn't signed in")`)
}

func TestUnderTLS(t *testing.T) {
	cert, key := testkit.NewAuthority(t, "console").Certify(t, time.Now().Add(time.Hour), "127.0.0.1")
	w := &world{T: t, home: t.TempDir(), web: daemon.Web{CertFile: cert, KeyFile: key}}
	w.serve()
	w.newPage()
	w.trustAll()
	w.signIn()
	w.works("https://" + w.daemon.Address + "/")
}

func TestBehindAProxy(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var to *url.URL
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-Prefix", "/some/k")
		}}
		mux := http.NewServeMux()
		mux.Handle("/some/k/", http.StripPrefix("/some/k", proxy))
		server := httptest.NewUnstartedServer(mux)
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // the browser tries before it is told to trust
		if secure {
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(server.Close)
		w := &world{T: t, home: t.TempDir(), web: daemon.Web{Origins: []string{server.URL}}}
		w.serve()
		to = &url.URL{Scheme: "http", Host: w.daemon.Address}
		w.newPage()
		w.trustAll()
		link, err := w.daemon.ConsoleURL(false)
		if err != nil {
			t.Fatal(err)
		}
		w.enter(server.URL + "/some/k" + strings.TrimPrefix(link, to.String()))
		w.works(server.URL + "/some/k/")
	}
}

// holdsNothing checks that the browser keeps nothing for an address that opens the kernel, and that its key can't be read.
func (w *world) holdsNothing(under string) {
	w.Helper()
	all, err := chromedp.Call(w.ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{under}})
	if err != nil {
		w.fail(err)
	}
	if cookies := eval[string](w, `document.cookie`); len(all.Cookies) > 0 || cookies != "" {
		w.Errorf("the cookies are %+v, %q", all.Cookies, cookies)
	}
	if got := eval[string](w, keyOf+`.then(async ({pair, name}) => {
		const read = (format) => crypto.subtle.exportKey(format, pair.privateKey).then(() => "read", (e) => e.name);
		return [name.replace(/-.*/, ""), pair.privateKey.extractable, pair.privateKey.usages.join(), await read("jwk"), await read("pkcs8")].join(" ");
	})`); got != "console false sign InvalidAccessError InvalidAccessError" {
		w.Errorf("the key is %s", got)
	}
	if kept := eval[string](w, `JSON.stringify([{...localStorage}, {...sessionStorage}, history.state, location.href])`); strings.Contains(kept, "console-") || strings.Contains(kept, "enter") {
		w.Errorf("the page keeps %s", kept)
	}
}

// keyOf is what the page keeps in IndexedDB, as an expression.
const keyOf = `new Promise((done, fail) => {
	const opened = indexedDB.open("kernos");
	opened.onerror = () => fail(opened.error);
	opened.onsuccess = () => {
		const all = opened.result.transaction("keys").objectStore("keys").getAll();
		all.onsuccess = () => { opened.result.close(); all.result.length === 1 ? done(all.result[0]) : fail(all.result.length + " keys"); };
	};
})`

// trustAll makes the page accept certificates of tests.
func (w *world) trustAll() {
	w.Helper()
	if _, err := chromedp.Call(w.ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}); err != nil {
		w.fail(err)
	}
}

// A browser that is signed in opens a page of another port of this machine, to which it sends the
// same cookies: the page can neither use the kernel, nor show the console, nor use a link.
func TestForeignPages(t *testing.T) {
	begun := time.Now() // the kernel's clock stands still, so that the link stays good on a busy machine
	w := &world{T: t, home: t.TempDir(), now: func() time.Time { return begun }}
	w.serve()
	w.newPage()
	w.signIn()
	link, err := w.daemon.ConsoleURL(false)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan map[string]string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(rw, `<!doctype html><link rel="icon" href="data:,"><body>
			<iframe id="console" src="http://%s/"></iframe><iframe id="link" src="%s"></iframe><img src="%[2]s"><link rel="prefetch" href="%[2]s">
			<script type="module" src="page.js"></script>`, w.daemon.Address, link)
	})
	mux.HandleFunc("GET /page.js", func(rw http.ResponseWriter, r *http.Request) { http.ServeFile(rw, r, "../npm/page.js") })
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var report map[string]string
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			report = map[string]string{"error": err.Error()}
		}
		told <- report
	})
	other := httptest.NewServer(mux)
	defer other.Close()
	w.do(chromedp.Navigate(other.URL + "/?" + url.Values{"kernel": {"http://" + w.daemon.Address}, "report": {other.URL + "/report"}}.Encode()))
	for name, outcome := range <-told {
		if outcome == "fine" || outcome == "loaded" || outcome == "message" || strings.Contains(outcome, "done") || name == "error" {
			t.Errorf("%s: %s", name, outcome)
		}
	}
	if got := w.ask("Memory.List", "query", `{"recursive":true}`); !strings.Contains(string(got), `"keys":[]`) {
		t.Errorf("a page of another origin has stored %s", got)
	}
	if eval[bool](w, `frames[0].length > 0 || [...document.querySelectorAll("iframe")].some((frame) => { try { return frame.contentDocument?.querySelector("main"); } catch { return false; } })`) {
		t.Error("the console is shown in a page of another origin")
	}
	w.enter(link) // it wasn't used up, and works for the person

	// A used link lets no other browser in, and says so. It takes nothing from a browser that was let in.
	const refused = `document.querySelector('[data-testid=refused]')?.textContent.includes("was used already")`
	w.do(chromedp.Navigate("about:blank"), chromedp.Navigate(link))
	w.wait(refused + ` && document.querySelector('[data-testid=status]').dataset.status === "online"`)
	w.newPage()
	w.do(chromedp.Navigate(link))
	w.wait(refused + ` && document.querySelector('[data-testid=status]').dataset.status === "signed-out"`)
	w.do(chromedp.Navigate("http://" + w.daemon.Address + "/"))
	w.wait(`document.body.textContent.includes("isn't signed in")`)
}

// A browser that was let in with the owner's rights has them for an hour, and then a console's rights. It shows that, and
// others show what is hidden from them, and why.
func TestTheOwnersBrowser(t *testing.T) {
	var late atomic.Bool
	begun := time.Now()
	now := func() time.Time {
		if late.Load() {
			return begun.Add(time.Hour)
		}
		return begun
	}
	w := &world{T: t, home: t.TempDir(), now: now}
	w.serve()
	w.newPage()
	w.signIn()
	const hidden = `document.querySelector('[data-testid=hidden]')`
	w.goTo("/call")
	w.wait(hidden + `?.textContent.includes("kernos console --owner") && ` + hidden + `.textContent.includes("Token.Create")`)
	w.goTo("/call/token/create")
	w.wait(`/for the owner only.*kernos console --owner/.test(document.querySelector('.ask').textContent)`)
	eval[bool](w, `(() => { document.activeElement.blur(); return document.dispatchEvent(new KeyboardEvent("keydown", {key: "k", ctrlKey: true, bubbles: true})); })()`)
	w.do(chromedp.WaitVisible(chromedp.CSS(`[data-testid=palette] input`)), chromedp.KeyEvent("token.revoke"))
	w.wait(`document.querySelector('[data-testid=palette] li')?.textContent.includes("kernos console --owner")`)
	w.do(chromedp.KeyEvent("\r"))
	w.wait(`location.hash === "#/call/token/revoke" && !document.querySelector('[data-testid=palette]').open`)

	link, err := w.daemon.ConsoleURL(true)
	if err != nil {
		t.Fatal(err)
	}
	eval[bool](w, fmt.Sprintf(`setTimeout(() => { location.href = %q; }), true`, link)) // in the page that is open
	w.wait(`document.querySelector('[data-testid=owner]') && !` + hidden)
	w.goTo("/call/token/list")
	w.run("done")
	w.wait(`document.querySelector('[data-testid=answer]').textContent.includes("console-")`)
	late.Store(true)
	w.ask("Token.Create", "command", fmt.Sprintf(`{"name":"looks-at-the-clock","expires":%d}`, begun.Add(2*time.Hour).UnixMilli()))
	w.wait(`document.querySelector('[data-testid=owner-ended]')?.textContent.includes("kernos console --owner") && document.querySelector('[data-testid=status]').dataset.status === "online"`)
	w.goTo("/call")
	w.wait(hidden)
	var all struct{ Tokens []struct{ Name string } }
	w.read("Token.List", &all)
	if browsers := slices.DeleteFunc(all.Tokens, func(one struct{ Name string }) bool { return !strings.HasPrefix(one.Name, "console-") }); len(browsers) != 1 {
		t.Errorf("a browser that was let in twice has the tokens %v", browsers)
	}
}

// A browser that isn't signed in sees why and what signs it in, in the colours of the page, and nothing that it could not use. Who
// signs out leaves nothing behind that was shown.
func TestSignIn(t *testing.T) {
	w := open(t)
	w.ask("Memory.Set", "command", `{"key":"a","value":"between us"}`)
	w.goTo("/messages")
	w.wait(`document.body.textContent.includes("between us")`)
	eval[bool](w, `[...document.querySelectorAll(".top button")].find((b) => b.textContent === "Sign out").click(), true`)
	w.wait(`document.querySelector('.signin')?.textContent.includes("This browser has signed out.")`)
	if eval[bool](w, `document.body.textContent.includes("between us")`) {
		t.Error("what was shown is still there")
	}
	for _, width := range []int64{1280, 390} {
		for _, theme := range []string{"light", "dark"} {
			w.theme(theme)
			w.do(chromedp.EmulateViewport(width, 844), chromedp.Reload())
			w.wait(`document.querySelector('.signin pre')?.textContent === "kernos console" && document.querySelector('.signin').textContent.includes("isn't signed in.")`)
			w.wait(`!document.querySelector("nav, .menu, .omnibox, .offline") && /^Kernos/.test(document.querySelector(".top").textContent) && document.querySelectorAll(".top button").length === 1`) // nothing that can't be used
			w.loadAxe()
			w.axe("sign-in")
			if found := eval[[]string](w, defects); len(found) > 0 {
				t.Errorf("%s, %d px: %s", theme, width, found)
			}
		}
	}
}

// A page that can't make a key says why, and what helps.
func TestNoSecureContext(t *testing.T) {
	w := &world{T: t, home: t.TempDir()}
	w.serve()
	w.newPage()
	w.blocks(`Object.defineProperty(window, "isSecureContext", {value: false})`)
	link, err := w.daemon.ConsoleURL(false)
	if err != nil {
		t.Fatal(err)
	}
	w.do(chromedp.Navigate(link))
	w.wait(`document.querySelector('[data-testid=refused]')?.textContent.includes("https and for this machine only")`)
}

// blocks runs a script in each page before the page's own scripts.
func (w *world) blocks(script string) {
	w.Helper()
	if _, err := chromedp.Call(w.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		w.fail(err)
	}
}
