package script_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/capability/script"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// in is want for a call that a session has caused.
func (w *world) in(session, who string, t message.Type, data, want string) {
	w.t.Helper()
	m := kerneltest.Command("", t, data)
	w.k.Stamp(&m)
	outcome := kerneltest.Outcome(kernel.ActFor(w.t.Context(), kernel.From(w.tokens[who], "unix").In(session)), w.k, m)
	got := string(outcome.Data)
	if outcome.Kind == message.KindError {
		code, text := kerneltest.ReadError(w.t, outcome)
		got = fmt.Sprintf("%d %s", code, text)
	}
	if !fits(got, want) {
		w.t.Errorf("%s %s in %s\ngot  %s\nwant %s", t, data, session, got, want)
	}
}

// sessions checks the versions of Text.N, the oldest first, with the sessions of each, and * if it is called.
func (w *world) sessions(when, want string) {
	w.t.Helper()
	var out struct {
		Versions []struct {
			Version  string
			Weight   int
			Sessions []string
		}
	}
	if err := json.Unmarshal([]byte(w.call("", "Syscall.Versions", `{"name":"Text.N"}`)), &out); err != nil {
		w.t.Fatal(err)
	}
	got := ""
	for _, v := range out.Versions {
		called := ""
		if v.Weight > 0 {
			called = "*"
		}
		got = fmt.Sprint(" ", v.Version, called, v.Sessions) + got
	}
	if got != " "+want {
		w.t.Errorf("%s: got %s, want %s", when, got, want)
	}
}

// A version keeps the sessions that it came from until its author or the owner takes it out of their rules.
func TestCodeKeepsTheSessionThatItCameFrom(t *testing.T) {
	w := newWorld(t, nil)
	version := func(n int, more ...string) string {
		return code("Text.N", "query", fmt.Sprintf("export const handler = () => %d", n), more...)
	}
	w.want("", "Syscall.Register", version(1), "{…}")
	w.in("a", "", "Syscall.Register", version(2), "{…}")
	w.sessions("a session has registered code", "1.0.0[] 1.0.1*[a]")
	w.in("b", "", "Syscall.Register", version(2), "{…}")
	w.sessions("and another one the same", "1.0.0[] 1.0.1*[a b]")
	w.in("a", "", "Syscall.Register", version(1), "{…}")
	w.sessions("code of the owner stays the owner's", "1.0.0*[] 1.0.1[a b]")
	w.in("c", "", "Syscall.Register", version(1, `,"version":"1.0.2"`), "{…}")
	w.sessions("as another version it is the session's", "1.0.0[] 1.0.1[a b] 1.0.2*[c]")
	w.want("", "Syscall.Rollback", `{"name":"Text.N","version":"1.0.1"}`, "{…}")
	w.sessions("going back changes nothing", "1.0.0[] 1.0.1*[a b] 1.0.2[c]")
	w.want("", "Syscall.Register", version(1, `,"version":"1.0.0","weights":{"1.0.0":1,"1.0.1":1,"1.0.2":1}`), "{…}")
	w = w.restart(shared)
	w.sessions("nor do weights and a restart", "1.0.0*[] 1.0.1*[a b] 1.0.2*[c]")
	w.want("", "Syscall.Describe", `{"name":"Text.N"}`, `{…"sessions":["a","b","c"]}`)

	w.want("", "Syscall.Adopt", `{"name":"Text.N","version":"1.0.2"}`, `{"name":"Text.N","versions":["1.0.2"]}`)
	w.sessions("one is adopted", "1.0.0*[] 1.0.1*[a b] 1.0.2*[]")
	w.want("", "Syscall.Rollback", `{"name":"Text.N","version":"1.0.0"}`, "{…}")
	w.want("", "Syscall.Adopt", `{"name":"Text.N"}`, `{"name":"Text.N","versions":[]}`) // 1.0.1 isn't called
	w.want("", "Syscall.Register", version(2), "{…}")
	told, _, err := w.journal.List(t.Context(), journal.Query{Filter: journal.Filter{Type: string(script.Adopted)}})
	if err != nil || len(told) != 2 || string(told[1].Message.Data) != `{"name":"Text.N","version":"1.0.1"}` {
		t.Errorf("the events are %v (%v)", told, err)
	}
	w = w.restart(shared)
	w.sessions("its author has registered it again", "1.0.0[] 1.0.1*[] 1.0.2[]")
	w.want("", "Syscall.Describe", `{"name":"Text.N"}`, `{…"timeout":6000}`)
	w.want("", "Text.N", `{}`, "2")
}

func TestWhoAdoptsCode(t *testing.T) {
	w := newWorld(t, nil)
	for name, preset := range map[string]principal.Preset{"one": principal.Agent, "two": principal.Agent, "console": principal.Console} {
		w.token(name, principal.Grant{Preset: preset})
	}
	w.in("a", "one", "Syscall.Register", code("Text.N", "query", "export const handler = () => 1"), "{…}")
	for _, c := range []struct{ session, who, want string }{
		{"a", "one", "403 The session a may not adopt code…kernos register --adopt Text.N"},
		{"b", "", "403 The session b may not adopt code…"},
		{"", "two", `403 Text.N belongs to the token "one"…`},
		{"", "console", `403 Text.N belongs to the token "one"…`},
	} {
		w.in(c.session, c.who, "Syscall.Adopt", `{"name":"Text.N"}`, c.want)
		w.sessions(c.who+" in "+c.session, "1.0.0*[a]")
	}
	w.want("", "Syscall.Adopt", `{"name":"Text.N","version":"2.0.0"}`, "404 Text.N has no version 2.0.0; it has 1.0.0")
	w.want("", "Syscall.Adopt", `{"name":"Text.None"}`, "404 No code is registered as Text.None…")
	if text := w.call("two", "Syscall.Describe", `{"name":"Text.N"}`); strings.Contains(text, "sessions") {
		t.Errorf("another caller sees the session: %s", text)
	}
	const under = "Under the rules of the session a, which its code came from; kernos register --adopt Text.N ends that."
	for who, sees := range map[string]bool{"one": true, "two": false} {
		if text := w.call(who, "Syscall.Types", `{}`); !strings.Contains(text, `\"Text.N\": {`) || strings.Contains(text, under) != sees {
			t.Errorf("declared for %s: %s", who, text)
		}
	}
	w.want("one", "Syscall.Adopt", `{"name":"Text.N"}`, `{"name":"Text.N","versions":["1.0.0"]}`)
	w.sessions("its author has adopted it", "1.0.0*[]")
}
