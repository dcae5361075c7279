// Package console_test drives the web console in a real browser.
package console_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/internal/testkit/browser"
	"kernos/internal/testkit/tool"
	"kernos/kernel"
	"kernos/message"
)

// pictures is where docs has its pictures: go test ./conformance/console -run Pictures -pictures ../../docs/console
var pictures = flag.String("pictures", "", "a folder for a picture of each view")

// The tests share a browser; each has a profile of its own in it.
var theBrowser = sync.OnceValues(func() (context.Context, error) {
	ctx, stop, err := browser.Start()
	if err == nil {
		stopBrowser = stop
	}
	return ctx, err
})

var stopBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

// A world is a kernel with its console, and a page of a browser.
type world struct {
	*testing.T
	daemon    *daemontest.Daemon
	home      string
	web       daemon.Web // without its address, which is another one each time
	now       func() time.Time
	retention daemon.Retention
	extra     []kernel.Module
	ctx       context.Context // of the page

	mu   sync.Mutex
	said []string // by the page, on its console
}

// open starts a kernel, and a browser page that is signed in to its console.
func open(t *testing.T, extra ...kernel.Module) *world {
	t.Helper()
	tool.Need(t, "browser") // before anything is started
	w := &world{T: t, home: t.TempDir(), extra: extra}
	w.serve()
	w.newPage()
	w.signIn()
	return w
}

// serve starts the kernel.
func (w *world) serve() {
	w.Helper()
	web := w.web
	web.Address = cmp.Or(web.Address, "127.0.0.1:0")
	w.daemon = daemontest.Serve(w, &daemon.Options{Home: w.home, Socket: &daemon.Socket{}, Web: &web, Modules: w.extra, Retention: w.retention, Now: w.now})
}

// newPage opens an empty page in a profile of its own.
func (w *world) newPage() {
	w.Helper()
	tool.Need(w, "browser")
	parent, err := theBrowser()
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	w.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
	})
	w.ctx = ctx
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900)); err != nil { // the context of the first step is that of the page
		w.Fatal(err)
	}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			w.mu.Lock()
			w.said = append(w.said, m.String())
			w.mu.Unlock()
		}
	}()
}

// signIn follows a link into the console.
func (w *world) signIn() {
	w.Helper()
	link, err := w.daemon.ConsoleURL(false)
	if err != nil {
		w.Fatal(err)
	}
	w.enter(link)
}

// enter follows a link into the console.
func (w *world) enter(link string) {
	w.Helper()
	w.do(chromedp.Navigate(link))
	w.wait(`document.querySelector('[data-testid=status]')?.dataset.status === "online"`)
}

// do takes steps in the page.
func (w *world) do(steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, testkit.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.fail(err)
	}
}

// wait waits until an expression is true in the page.
func (w *world) wait(expression string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, testkit.Patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(0))); err != nil {
		w.fail(fmt.Errorf("%s: %w", expression, err))
	}
}

// fail ends the test, and leaves a picture of the page.
func (w *world) fail(err error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), testkit.Patience)
	defer cancel()
	if png, e := chromedp.Run(ctx, chromedp.CaptureScreenshot()); e == nil {
		path := filepath.Join(os.TempDir(), strings.ReplaceAll(w.Name(), "/", "_")+".png")
		if os.WriteFile(path, png, 0o600) == nil {
			w.Logf("the page: %s", path)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Fatalf("%v\nthe page said:\n%s", err, strings.Join(w.said, "\n"))
}

// eval returns the value of an expression in the page.
func eval[T any](w *world, expression string) T {
	w.Helper()
	value, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		w.fail(fmt.Errorf("%s: %w", expression, err))
	}
	return value
}

// click clicks on the first element of a selector, when it can be seen and used. What the page learns meanwhile may move
// the element away from under the pointer, as it does for a person: such a click is made again.
func (w *world) click(selector string) {
	w.Helper()
	at := chromedp.CSS(selector)
	quoted, _ := json.Marshal(selector)
	ctx, cancel := context.WithTimeout(w.ctx, testkit.Patience)
	defer cancel()
	for hit := false; !hit; {
		if ctx.Err() != nil {
			w.fail(fmt.Errorf("%s can't be hit", selector))
		}
		w.do(chromedp.WaitVisible(at), chromedp.WaitEnabled(at))
		eval[bool](w, fmt.Sprintf(`(() => {
			window.hit = false;
			document.addEventListener("click", (event) => { window.hit = !!event.target.closest(%s); }, {capture: true, once: true});
			return true;
		})()`, quoted))
		w.do(chromedp.Click(at))
		landed, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool](`new Promise((done) => requestAnimationFrame(() => done(window.hit !== false)))`, chromedp.EvalAwaitPromise))
		hit = landed || err != nil // the page may have been left
	}
}

// fill replaces the value of a field, as typing does.
func (w *world) fill(selector, text string) {
	w.Helper()
	w.do(chromedp.WaitVisible(chromedp.CSS(selector)))
	quoted, _ := json.Marshal(selector)
	eval[bool](w, fmt.Sprintf(`(() => { const field = document.querySelector(%s); field.focus(); field.select?.(); return true; })()`, quoted))
	w.do(chromedp.KeyEvent(text))
}

// goTo opens a place of the console, and waits until what was there before is no longer shown.
func (w *world) goTo(place string) {
	w.Helper()
	quoted, _ := json.Marshal(place)
	eval[bool](w, fmt.Sprintf(`new Promise((done) => {
		const before = location.href;
		location.hash = %s;
		if (location.href === before) done(true);
		else addEventListener("hashchange", () => requestAnimationFrame(() => setTimeout(() => done(true))), {once: true});
	})`, quoted))
}

// theme makes the page believe that the system is light or dark.
func (w *world) theme(name string) {
	w.Helper()
	if _, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	}); err != nil {
		w.fail(err)
	}
}

// ask calls a syscall as the owner.
func (w *world) ask(t message.Type, kind message.Kind, data string) json.RawMessage {
	w.Helper()
	out := w.outcome(t, kind, data)
	if out.Kind == message.KindError {
		w.Fatalf("%s: %s", t, out.Data)
	}
	return out.Data
}

// read reads the answer of a query that needs no data.
func (w *world) read(t message.Type, answer any) {
	w.Helper()
	if err := json.Unmarshal(w.ask(t, message.KindQuery, `{}`), answer); err != nil {
		w.Fatal(err)
	}
}

// outcome is ask for a call that may fail.
func (w *world) outcome(t message.Type, kind message.Kind, data string) message.Message {
	w.Helper()
	out, _ := w.daemon.Call(w.Context(), message.Message{Kind: kind, Type: t, Data: json.RawMessage(data)}, nil)
	return out
}

// picture keeps a picture of the page.
func (w *world) picture(path string) {
	w.Helper()
	png, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		w.Fatal(err)
	}
}
