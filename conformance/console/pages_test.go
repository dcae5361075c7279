package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"kernos/internal/testkit/tool"
)

// places are the views with something in them, each with what is there when it is drawn, and what
// is done there first.
var places = []struct {
	name, at, ready string
	do              func(w *world)
}{
	{"methods", "/call", `document.querySelector('.methods a')`, nil},
	{"form", "/call/memory/set", `document.querySelector('[data-field="/key"]')`, nil},
	{"form of many fields", "/call/http/fetch", `document.querySelector('[data-field="/url"]')`, nil},
	{"JSON", "/call/memory/list?data={}", `document.querySelector('[data-testid=json]')`, func(w *world) { w.click(`[data-testid=json-tab]`) }},
	{"answer", "/call/message/list?data=%7B%22limit%22%3A2%7D", `document.querySelector('[data-status=done]')`, (*world).press},
	{"problem", "/call/memory/get", `document.querySelector('.problem')`, (*world).press},
	{"guidance", "/call/memory/sett", `document.querySelector('[data-testid=mend]')`, (*world).press},
	{"confirmation", "/call/memory/delete?data=%7B%22key%22%3A%22n%22%7D", `document.querySelector('[data-testid=confirm]')`, func(w *world) {
		w.wait(`document.querySelector('.kind.command')`)
		w.press()
	}},
	{"messages", "/messages", `document.querySelector('.message')`, nil},
	{"no message", "/messages?filter=nothing", `document.querySelector('.column .empty')`, nil},
	{"message", "/messages/first", `document.querySelector('[data-testid=inspector] .one + .one')`, nil},
	{"no workflow", "/workflows/nope", `document.querySelector('.column .empty')`, nil},
	{"workflows", "/workflows", `document.querySelector('[data-testid=recent] a')`, nil},
	{"graph", "/workflows/w?at=first", `document.querySelector('[data-testid=graph] .node') && document.querySelector('[data-testid=inspector] .one + .one')`, nil},
	{"why", "/workflows/w?why=second", `document.querySelector('.node.dim')`, nil},
	{"tree", "/workflows/w?as=tree", `document.querySelector('.branch')`, nil},
	{"timeline", "/workflows/w?as=timeline", `document.querySelector('.stretch')`, nil},
	{"keys", "/memory", `document.querySelector('[data-testid=key], [data-testid=folder]')`, nil},
	{"value", "/memory/notes/1", `document.querySelector('[data-testid=shown]') && document.querySelector('[data-testid=version]')`, nil},
	{"no value", "/memory/nope", `document.querySelector('[data-testid=entry] .empty')`, nil},
	{"new key", "/memory?new=notes/", `document.querySelector('[data-testid=name]')`, nil},
	{"editor", "/memory/notes/1", `document.querySelector('[data-testid=value]')`, func(w *world) { w.click(`[data-testid=edit]`) }},
	{"difference", "/memory/notes/1?", `document.querySelector('[data-testid=diff]')`, func(w *world) {
		w.fill(`[data-testid=value]`, "a longer text")
		w.click(`[data-testid=review]`)
	}},
	{"conflict", "/memory/notes/1", `document.querySelector('[data-testid=conflict]')`, func(w *world) {
		w.ask("Memory.Set", "command", `{"key":"notes/1","value":"another text"}`)
		w.click(`[data-testid=save]`)
	}},
	{"palette", "/call", `document.querySelector('[data-testid=palette] li')`, func(w *world) {
		w.click(`.omnibox`)
		w.fill(`[data-testid=palette] input`, "memory")
	}},
	{"sheet of keys", "/messages", `document.querySelector('[data-testid=sheet][open] dd')`, func(w *world) { w.do(chromedp.KeyEvent("\x1b"), chromedp.KeyEvent("?")) }},
	{"end", "/messages", `!document.querySelector('[data-testid=sheet][open]')`, func(w *world) { w.do(chromedp.KeyEvent("\x1b")) }},
}

// press presses Run, when the form is that of the place.
func (w *world) press() {
	w.Helper()
	w.wait(`document.querySelector('.ask h2')?.textContent.toLowerCase().replace(/[._]/g, "") === location.hash.split("?")[0].split("/").slice(2).join("").replace(/_/g, "")`)
	w.click(`[data-testid=run]`)
}

// visit goes to each place, and does something there.
func (w *world) visit(look func(name string)) {
	w.Helper()
	for _, p := range places {
		w.goTo(p.at)
		if p.do != nil {
			p.do(w)
		}
		w.wait(p.ready)
		look(p.name)
	}
}

// furnish gives every view something to show.
func (w *world) furnish() {
	w.Helper()
	w.send("first", "", "w", "command", "Memory.Set", `{"key":"notes/1","value":{"milk":2,"list":[1,2,3]},"ttl":"1h"}`)
	w.send("second", "first", "w", "query", "Memory.Get", `{"key":"nope"}`)
	w.ask("Memory.Set", "command", `{"key":"notes/1","value":"a text"}`)
}

// loadAxe loads the checker of accessibility into the page.
func (w *world) loadAxe() {
	w.Helper()
	axe, err := os.ReadFile(filepath.Join(tool.Modules(w), "axe-core", "axe.min.js"))
	if err != nil {
		w.Fatal(err)
	}
	eval[bool](w, string(axe)+"; true")
}

// axe checks that everyone can use the page as it is.
func (w *world) axe(state string) {
	w.Helper()
	// What Why? fades is faint on purpose, until it is pressed again.
	found := eval[[]string](w, `axe.run({exclude: [".dim"]}, {resultTypes: ["violations"], iframes: false}).then((result) => result.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((node) => node.html + " " + node.failureSummary).join("\n  ")))`)
	if len(found) > 0 {
		w.Errorf("%s:\n%s", state, strings.Join(found, "\n"))
	}
}

// defects finds what isn't drawn as it should be: text that is cut without an ellipsis, panes without one rule between them that is
// as long as they are, texts of empty places that don't begin where the texts of other places do, and lists that aren't one stop.
const defects = `(() => {
	const found = [], px = parseFloat, shown = (e) => e.checkVisibility({visibilityProperty: true}), box = (e) => e.getBoundingClientRect();
	for (const e of document.querySelectorAll("body :not(.unseen, option, textarea, input)")) {
		const style = getComputedStyle(e), text = [...e.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
		if (!text || !shown(e) || e.scrollWidth <= e.clientWidth + 1 || e.clientWidth === 0) continue;
		if (style.overflowX === "hidden" && (style.textOverflow !== "ellipsis" || /flex|grid/.test(style.display))) found.push("cut: " + e.outerHTML.slice(0, 120));
	}
	for (const panes of document.querySelectorAll(".panes")) {
		const all = [...panes.children].filter(shown);
		all.forEach((pane, i) => {
			const style = getComputedStyle(pane), before = all[i - 1], beside = before && box(pane).left >= box(before).right - 1;
			const left = all.some((one) => box(one).right <= box(pane).left + 1), want = (left ? "1px" : "0px") + " " + (before && !beside ? "1px" : "0px");
			if (style.borderLeftWidth + " " + style.borderTopWidth !== want) found.push("rule of " + pane.className + ": " + style.borderLeftWidth + " " + style.borderTopWidth + ", not " + want);
			if (beside && Math.max(...all.slice(i).map((one) => box(one).bottom)) < box(before).bottom - 1) found.push("short rule beside " + before.className);
		});
	}
	for (const e of document.querySelectorAll(".empty > p")) {
		const pane = e.closest(".panes > *, main");
		const at = box(e).left - box(pane).left - px(getComputedStyle(pane).borderLeftWidth), down = box(e.parentElement).top + 24;
		if (shown(e) && (at !== 12 || box(e).top - down > 4)) found.push("empty: " + at + " px from the left, " + (box(e).top - down) + " px further down: " + e.textContent);
	}
	for (const e of document.querySelectorAll("[placeholder]")) {
		if (getComputedStyle(e, "::placeholder").color !== ink("--ink3")) found.push("placeholder: " + e.outerHTML.slice(0, 120));
	}
	for (const list of document.querySelectorAll("nav, .methods > div:not(.bar), .rows, .canvas, .recent, .history ul, [role=tablist], [role=radiogroup]")) {
		const all = [...list.querySelectorAll("a, button:enabled")], stops = all.filter((one) => one.tabIndex === 0).length + (list.tabIndex === 0);
		if (all.length && stops !== 1) found.push("stops: " + stops + " of " + list.outerHTML.slice(0, 120));
	}
	return found;
	function ink(name) { const e = document.createElement("i"); e.style.color = "var(" + name + ")"; document.body.append(e); const is = getComputedStyle(e).color; e.remove(); return is; }
})()`

// Every place can be used by everyone, is drawn as it should be, and nothing of it stands outside of the page.
func TestEveryPlace(t *testing.T) {
	w := open(t)
	w.furnish()
	w.loadAxe()
	for _, page := range []struct {
		theme string
		width int64
		axe   bool
	}{{"light", 1440, false}, {"dark", 1024, true}, {"light", 390, true}} {
		w.theme(page.theme)
		w.do(chromedp.EmulateViewport(page.width, 844))
		w.visit(func(name string) {
			state := fmt.Sprintf("%s, %s, %d px", name, page.theme, page.width)
			if page.axe {
				w.axe(state)
			}
			// A box that scrolls of its own may have more than is in sight.
			outside := eval[[]string](w, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && e.checkVisibility() && !e.closest(".canvas, .unseen, dialog") && !scrolled(e)).map((e) => e.outerHTML.slice(0, 120));
				function scrolled(e) { for (let at = e.parentElement; at; at = at.parentElement) if (getComputedStyle(at).overflowX === "hidden" && at.getBoundingClientRect().right <= innerWidth + 1 && at !== document.body && !at.matches(".work")) return true; return false; }`)
			if len(outside) > 0 {
				t.Errorf("%s: outside of the page:\n%s", state, strings.Join(outside[:min(len(outside), 5)], "\n"))
			}
			if found := eval[[]string](w, defects); len(found) > 0 {
				t.Errorf("%s:\n%s", state, strings.Join(found, "\n"))
			}
			if *pictures != "" {
				for _, theme := range []string{"light", "dark"} {
					w.theme(theme)
					w.picture(filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", name, page.width, theme)))
				}
				w.theme(page.theme)
			}
		})
	}
}

// A method is called in each place as it is in messages, in the terminal and in graphs.
func TestNames(t *testing.T) {
	w := open(t)
	for place, name := range map[string]string{"memory/set": "Memory.Set", "vfs/read": "VFS.Read", "kernel/ping": "Ping", "syscall/search": "Syscall.Search"} {
		w.goTo("/call/" + place)
		w.wait(fmt.Sprintf(`document.querySelector('.ask h2')?.textContent === %q && document.querySelector('.methods [aria-current]')?.textContent === %q`, name, name))
		w.click(`.omnibox`)
		w.fill(`[data-testid=palette] input`, name)
		w.wait(fmt.Sprintf(`document.querySelector('[data-testid=palette] [aria-selected=true] .mono')?.textContent === %q`, name))
		w.do(chromedp.KeyEvent("\r"))
		w.wait(`!document.querySelector('[data-testid=palette]').open`)
	}
	w.furnish()
	for _, p := range places[:8] { // the views of calls
		w.goTo(p.at)
		if p.do != nil {
			p.do(w)
		}
		w.wait(p.ready)
		const wrong = `[...document.querySelectorAll("main *")].filter((e) => !e.matches("option") && [...e.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && /\b(memory|http|message)[._][a-z]+\b/.test(node.data))).map((e) => e.outerHTML.slice(0, 120))`
		if found := eval[[]string](w, wrong); len(found) > 0 {
			t.Errorf("%s: names in another spelling: %s", p.name, strings.Join(found, "\n"))
		}
	}
}

// hostile are texts that would do something if data became part of the page: each sets window.xss.
var hostile = []string{
	`<img src=x onerror="window.xss=1">`,
	`"><script>window.xss=1</script>`,
	`<svg/onload=window.xss=1>`,
	`javascript:window.xss=1`,
	`' onmouseover='window.xss=1' x='`,
	`</textarea><iframe srcdoc="<script>parent.xss=1</script>">`,
	`{{constructor.constructor('window.xss=1')()}}`,
	`<a href="javascript:window.xss=1" id=injected>x</a>`,
	"\u2028window.xss=1//\u202e<b id=injected>",
	`<style>@import 'x'</style><base href=//x><form id=injected>`,
}

// What is stored, sent, typed and answered is text in the page, and never markup. So is what a hydration finds in a file: a
// content, and the names and descriptions of skills.
//
// Clauses: H20-10.2-2
func TestHostileData(t *testing.T) {
	w := open(t)
	quote := func(text string) string { q, _ := json.Marshal(text); return string(q) }
	// Elements and attributes that no view makes.
	const foreign = `[...document.querySelectorAll("#injected, img, iframe, script:not([src]), base, style, form, [onerror], [onload], [onmouseover], [srcdoc], [href^='javascript:' i], [src^='javascript:' i]")].map((e) => e.outerHTML)`
	for i, text := range hostile {
		key := "x/" + strings.NewReplacer("/", "_", "\u2028", "", "\u202e", "").Replace(text) // keys have no invisible characters
		id := fmt.Sprint("m", i, text)
		w.send(id, "", id, "command", "Memory.Set", `{"key":`+quote(key)+`,"value":{`+quote(text)+`:`+quote(text)+`}}`)
		w.send(id+"!", id, id, "query", "Memory.Get", `{"key":`+quote(text+"nope")+`}`) // the error's text has it
		w.ask("Memory.Set", "command", `{"key":`+quote(key)+`,"value":`+quote(text)+`}`)
		shows := func(selector, of string) string {
			return `[...document.querySelectorAll(` + quote(selector) + `)].some((e) => (e.value ?? e.textContent).includes(` + quote(of) + `))`
		}
		escaped := func(text string) string { return eval[string](w, `encodeURIComponent(`+quote(text)+`)`) }
		form := `{"key":` + quote(text) + `,"value":` + quote(text) + `}`
		for _, p := range []struct{ at, ready string }{
			{"/memory/x/" + escaped(strings.TrimPrefix(key, "x/")), shows("[data-testid=shown]", text) + " && " + shows("[data-testid=key]", key[2:])},
			{"/messages/" + escaped(id+"!"), shows("[data-testid=inspector] .json", "nope") + " && " + shows(".message", key[:2])},
			{"/workflows/" + escaped(id) + "?at=" + escaped(id), shows("[data-testid=workflows] h2", id) + " && " + shows("[data-testid=inspector] .json", "x/")},
			{"/workflows/" + escaped(id) + "?as=tree&why=" + escaped(id+"!"), `document.querySelector('.branch')`},
			{"/call/memory/get?data=" + escaped(form), shows(`[data-field="/key"] [data-testid=input]`, text[:5])},
			{"/" + escaped(text) + "/" + escaped(text) + "?filter=" + escaped(text), `document.querySelector('[data-testid=call]')`},
			{"/workflows/" + escaped(text), `document.querySelector('[data-testid=problem]')`}, // an error text
		} {
			w.goTo(p.at)
			w.wait(p.ready)
			if found := eval[[]string](w, foreign); len(found) > 0 {
				t.Errorf("%q at %s made %q", text, p.at, found)
			}
		}
		w.goTo("/call/memory/get?data=" + escaped(`{"key":`+quote(text)+`}`))
		w.wait(shows(`[data-field="/key"] [data-testid=input]`, text[:5]))
		w.click(`[data-testid=run]`)
		w.wait(`document.querySelector('[data-testid=answer]')?.dataset.status === "failed"`)
		if found := eval[[]string](w, foreign); len(found) > 0 {
			t.Errorf("%q in an answer made %q", text, found)
		}
		w.hydrate(text, i)
		if found := eval[[]string](w, foreign); len(found) > 0 {
			t.Errorf("%q in a hydration made %q", text, found)
		}
	}
	// If data became a part of the page after all, the policy of the page would refuse to run or fetch anything.
	eval[bool](w, `(() => {
		window.refused = new Set();
		addEventListener("securitypolicyviolation", (event) => refused.add(event.effectiveDirective));
		const add = (name, members) => document.body.append(Object.assign(document.createElement(name), members));
		add("script", {textContent: "window.xss = 1"});
		add("style", {textContent: "body { color: red }"});
		add("img", {src: "http://127.0.0.1:1/"});
		add("iframe", {src: "http://127.0.0.1:1/"});
		fetch("http://127.0.0.1:1/").catch(() => {});
		return true;
	})()`)
	w.wait(`[...refused].sort().join(" ") === "connect-src frame-src img-src script-src-elem style-src-elem"`)
	if !eval[bool](w, `window.xss === undefined`) {
		t.Error("data ran in the page")
	}
}

// hydrate shows a hydration whose content, and whose skill, have a text. The number of the round changes the form, so that
// no earlier answer is taken for this one.
func (w *world) hydrate(text string, i int) {
	w.Helper()
	quote := func(text string) string { q, _ := json.Marshal(text); return string(q) }
	store := func(key, value string) {
		w.ask("Memory.Set", "command", `{"key":`+quote(key)+`,"value":`+quote(value)+`}`)
	}
	store("skill.md", "---\nname: "+quote("name "+text)+"\ndescription: "+quote("description "+text)+"\n---\n")
	store("agent.md", "---\nskills: [./skill.md]\n---\ncontent "+text)
	w.goTo(`/call/content/hydrate?data=` + eval[string](w, fmt.Sprintf(`encodeURIComponent('{"uri":"os://memory/agent.md","checksums":%t}')`, i%2 == 0)))
	w.wait(`document.querySelector('[data-field="/uri"] [data-testid=input]')?.value === "os://memory/agent.md"`)
	w.click(`[data-testid=run]`)
	w.wait(`document.querySelector('[data-testid=answer]')?.dataset.status === "done"`)
	w.click(`[data-testid=answer] .fold`) // the skill
	for _, part := range []string{"name ", "description ", "content "} {
		w.wait(`[...document.querySelectorAll("[data-testid=answer] .text")].some((e) => JSON.parse(e.textContent) === ` + quote(part+text) + `)`)
	}
}

func TestPalette(t *testing.T) {
	w := open(t)
	w.furnish()
	w.goTo("/call/memory/get?data=%7B%22key%22%3A%22notes%2F1%22%7D")
	w.press()
	w.wait(`document.querySelector('[data-status=done]')`)
	for _, c := range []struct{ typed, name, want string }{
		{"notes/", "notes/1", "#/memory/notes/1"},
		{":notes", "notes/1", "#/memory/notes/1"},
		{"second", "second", "#/messages/second"},
		{"#first", "first", "#/messages/first"},
		{"memory.set", "memory.set", "#/call/memory/set"},
		{"remember", "memory.set", "#/call/memory/set"}, // what people call it
		{"workflows", "workflows", "#/workflows"},
		{">work", "workflows", "#/workflows"},
		{"", "memory.get", "#/call/memory/get"}, // what was called last
	} {
		w.goTo("/call")
		w.wait(`document.querySelector('[data-view=call] .methods')`)
		w.click(`.omnibox`)
		w.wait(`document.activeElement.matches("[data-testid=palette] input")`)
		if c.typed != "" {
			w.fill(`[data-testid=palette] input`, c.typed)
		}
		w.wait(fmt.Sprintf(`document.querySelector('[data-testid=palette] [aria-selected=true] .mono')?.textContent.toLowerCase() === %q`, c.name))
		w.do(chromedp.KeyEvent("\r"))
		w.wait(fmt.Sprintf(`document.activeElement.matches("main") && location.hash === %q && !document.querySelector('[data-testid=palette]').open`, c.want))
	}
}

// Every place can be opened by its link alone, shows what the link says, and opening it runs nothing:
// each method, with what it needs, in a link.
func TestLinksRunNothing(t *testing.T) {
	w := open(t, formModule())
	w.furnish()
	for _, method := range []string{"memory/set", "memory/delete", "memory/increment", "form/fill", "job/start"} {
		w.goTo("/call/" + method + "?data=%7B%22key%22%3A%22linked%22%2C%22value%22%3A1%2C%22title%22%3A%22linked%22%7D")
		w.wait(fmt.Sprintf(`document.querySelector('.ask h2')?.textContent.toLowerCase() === %q && document.querySelector('.kind')`, strings.ReplaceAll(method, "/", ".")))
		w.do(chromedp.Reload())
		w.wait(`[...document.querySelectorAll('[data-testid=input]')].some((input) => input.value.includes("linked"))`)
	}
	for _, p := range []struct{ at, ready string }{
		{"/messages?filter=kind:command+milk", `document.querySelector('[data-testid=filter]')?.value === "kind:command milk" && document.querySelectorAll('.message').length === 1`},
		{"/messages/first?filter=milk", `document.querySelector('[data-testid=inspector] h2')?.textContent === "Memory.Set" && document.querySelector('.message[aria-current]')`},
		{"/workflows/w?as=tree&at=second&why=second", `document.querySelector('.branch[aria-current]') && document.querySelector('[data-testid=why][aria-pressed=true]')`},
		{"/memory/notes/1", `document.querySelector('[data-testid=shown]')?.textContent === "a text"`},
		{"/memory?new=notes/2", `document.querySelector('[data-testid=name]')?.value === "notes/2"`},
	} {
		w.goTo(p.at)
		w.wait(p.ready)
		w.do(chromedp.Reload())
		w.wait(p.ready)
	}
	var found struct{ Messages []struct{ Type string } }
	if err := json.Unmarshal(w.ask("Message.List", "query", `{"kind":"command"}`), &found); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(found.Messages); got != "[{Token.Enrol} {Memory.Set} {Memory.Set}]" { // signing in, and furnish
		t.Errorf("the commands are %s", got)
	}
	if got := w.outcome("Message.List", "query", `{"filter":"type:Form.Fill"}`); !strings.Contains(string(got.Data), `"messages":[]`) {
		t.Errorf("opening a link has called Form.Fill: %s", got.Data)
	}
}
