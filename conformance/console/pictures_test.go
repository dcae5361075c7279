package console_test

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPictures makes the pictures of the documentation, where -pictures names a folder for them.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		return
	}
	w := open(t)
	w.send("order-7", "", "orders/7", "command", "Memory.Set", `{"key":"orders/7","value":{"table":4,"dishes":["soup","bread"],"total":1450}}`)
	w.send("stock", "order-7", "orders/7", "query", "Memory.Get", `{"key":"orders/7"}`)
	for _, dish := range []string{"soup", "bread", "butter"} {
		w.send("take-"+dish, "stock", "orders/7", "command", "Memory.Increment", `{"key":"stock/`+dish+`","by":-1}`)
	}
	w.send("receipt", "order-7", "orders/7", "command", "Http.Fetch", `{"url":"http://127.0.0.1:1/print"}`)
	w.send("paid", "order-7", "orders/7", "command", "Memory.Set", `{"key":"orders/7","value":{"table":4,"dishes":["soup","bread"],"total":1450,"paid":true}}`)
	w.send("note", "order-7", "orders/7", "query", "Memory.Get", `{"key":"guests/4"}`)
	w.do(chromedp.EmulateViewport(1280, 720))
	for _, p := range []struct {
		name, at, ready string
		do              func()
	}{
		{"call", "/call/memory/get?data=%7B%22key%22%3A%22orders%2F7%22%2C%22withRevision%22%3Atrue%7D", `document.querySelector('[data-status=done]')`, w.press},
		{"messages", "/messages/receipt", `document.querySelector('[data-testid=inspector] .one + .one')`, nil},
		{"workflows", "/workflows/orders%2F7?why=receipt&at=receipt", `document.querySelector('.node.dim') && document.querySelector('[data-testid=inspector] .one + .one')`, nil},
		{"memory", "/memory/orders/7", `document.querySelector('[data-testid=diff]')`, func() { w.click(`[data-testid=version] button[aria-expanded]`) }},
	} {
		w.goTo(p.at)
		if p.do != nil {
			p.do()
		}
		w.wait(p.ready)
		w.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(), undefined`))
		for theme, suffix := range map[string]string{"light": "", "dark": "-dark"} {
			w.theme(theme)
			w.wait(`document.documentElement.dataset.theme === "` + theme + `"`)
			w.picture(filepath.Join(*pictures, p.name+suffix+".png"))
		}
		w.theme("light")
	}
}
