package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// places are the views with something in them, each with what is there when it is drawn.
var places = []struct{ name, at, ready string }{
	{"methods", "/call", `document.querySelector('.methods a')`},
	{"form", "/call/memory/set", `document.querySelector('[data-field="/key"]')`},
	{"form of many fields", "/call/http/fetch", `document.querySelector('[data-field="/url"]')`},
	{"messages", "/messages", `document.querySelector('.message')`},
	{"message", "/messages/first", `document.querySelector('[data-testid=inspector] .one + .one')`},
	{"workflows", "/workflows", `document.querySelector('[data-testid=recent] a')`},
	{"graph", "/workflows/w?at=first", `document.querySelector('[data-testid=graph] .node') && document.querySelector('[data-testid=inspector] .one + .one')`},
	{"why", "/workflows/w?why=second", `document.querySelector('.node.dim')`},
	{"tree", "/workflows/w?as=tree", `document.querySelector('.branch')`},
	{"timeline", "/workflows/w?as=timeline", `document.querySelector('.stretch')`},
	{"keys", "/memory", `document.querySelector('[data-testid=key], [data-testid=folder]')`},
	{"value", "/memory/notes/1", `document.querySelector('[data-testid=shown]') && document.querySelector('[data-testid=version]')`},
	{"new key", "/memory?new=notes/", `document.querySelector('[data-testid=name]')`},
}

// furnish gives every view something to show.
func (w *world) furnish() {
	w.Helper()
	w.send("first", "", "w", "command", "Memory.Set", `{"key":"notes/1","value":{"milk":2,"list":[1,2,3]},"ttl":"1h"}`)
	w.send("second", "first", "w", "query", "Memory.Get", `{"key":"nope"}`)
	w.ask("Memory.Set", "command", `{"key":"notes/1","value":"a text"}`)
}

func TestAccessibility(t *testing.T) {
	axe, err := os.ReadFile("../npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v; make npm installs it", err)
	}
	w := open(t)
	w.furnish()
	eval[bool](w, string(axe)+"; true")
	for _, theme := range []string{"light", "dark"} {
		w.theme(theme)
		for _, p := range places {
			w.goTo(p.at)
			w.wait(p.ready)
			// What Why? fades is faint on purpose, until it is pressed again.
			found := eval[[]string](w, `axe.run({exclude: [".dim"]}).then((result) => result.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((node) => node.html + " " + node.failureSummary).join("\n  ")))`)
			if len(found) > 0 {
				t.Errorf("%s, %s:\n%s", p.name, theme, strings.Join(found, "\n"))
			}
		}
	}
}

func TestWidths(t *testing.T) {
	w := open(t)
	w.furnish()
	for _, width := range []int64{1440, 1024, 390} {
		w.do(chromedp.EmulateViewport(width, 844))
		for _, p := range places {
			w.goTo(p.at)
			w.wait(p.ready)
			// Nothing stands outside of the page, except in a box that scrolls of its own.
			outside := eval[[]string](w, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && e.checkVisibility() && !e.closest(".canvas, .unseen, dialog") && !scrolled(e)).map((e) => e.outerHTML.slice(0, 120));
				function scrolled(e) { for (let at = e.parentElement; at; at = at.parentElement) if (getComputedStyle(at).overflowX === "hidden" && at.getBoundingClientRect().right <= innerWidth + 1 && at !== document.body && !at.matches(".work")) return true; return false; }`)
			if len(outside) > 0 {
				t.Errorf("%s at %d px: outside of the page:\n%s", p.name, width, strings.Join(outside[:min(len(outside), 5)], "\n"))
			}
			if *pictures != "" {
				w.picture(filepath.Join(*pictures, fmt.Sprintf("%s-%d.png", p.name, width)))
			}
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
	}
	if !eval[bool](w, `window.xss === undefined`) {
		t.Error("data ran in the page")
	}
}

func TestPalette(t *testing.T) {
	w := open(t)
	w.furnish()
	for typed, want := range map[string]string{
		"notes/":     "#/memory/notes/1",
		"second":     "#/messages/second",
		"memory.set": "#/call/memory/set",
		"workflows":  "#/workflows",
	} {
		w.goTo("/call")
		w.wait(`document.querySelector('[data-view=call] .methods')`)
		w.click(`.omnibox`)
		w.fill(`[data-testid=palette] input`, typed)
		w.wait(`document.querySelector('[data-testid=palette] [aria-selected=true] .mono')?.textContent.toLowerCase().startsWith(` + fmt.Sprintf("%q", typed) + `)`)
		w.click(`[data-testid=palette] [aria-selected=true]`)
		w.wait(fmt.Sprintf(`location.hash === %q && !document.querySelector('[data-testid=palette]').open`, want))
	}
}
