package console_test

import "testing"

// What waits is shown when the console opens, and what comes while it is open, by the browser too where that is allowed.
func TestNotifications(t *testing.T) {
	w := open(t)
	w.ask("Notify.Send", "command", `{"text":"Call mum","title":"Reminder"}`)
	w.wait(`document.querySelector('[data-testid=notices]')?.textContent.includes("Reminder: Call mum")`)
	eval[bool](w, `(() => {
		window.shown = [];
		window.Notification = class { constructor(title, more) { window.shown.push(title + ": " + more.body); } static permission = "default"; static async requestPermission() { return "granted"; } };
		return true;
	})()`)
	w.wait(`[...document.querySelectorAll('[data-testid=notices] button')].at(-1)?.textContent === "Seen"`)
	if eval[bool](w, `document.querySelectorAll('[data-testid=notices] button').length === 2`) {
		w.click(`[data-testid=notices] button`)
		w.wait(`document.querySelectorAll('[data-testid=notices] button').length === 1`)
		w.ask("Notify.Send", "command", `{"text":"Take a break"}`)
		w.wait(`window.shown.includes("Kernos: Take a break")`)
	}
	eval[bool](w, `(() => { [...document.querySelectorAll('[data-testid=notices] button')].at(-1).click(); return true; })()`)
	w.wait(`!document.querySelector('[data-testid=notices]')`)
}
