package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// as sends a request that acts for a principal, and returns its outcome.
func (w *whole) as(p *principal.Principal, m message.Message) message.Message {
	w.kernel.Stamp(&m)
	return kerneltest.Outcome(kernel.ActFor(context.Background(), kernel.From(p, "ws")), w.kernel, m)
}

// TestSecretsOfEachPrincipal sends secrets as each principal, to a server that sends them back,
// to one that does not answer, and in requests that are refused, and then looks for them in all
// that is kept, in errors, and in what each principal sees of the messages.
func TestSecretsOfEachPrincipal(t *testing.T) {
	w, dir := openLogged(t, serveAgent(t))
	server := echoes(t)
	host := strings.TrimPrefix(server, "http://")
	principals := []*principal.Principal{principal.TheOwner()}
	for _, g := range []principal.Grant{
		{Preset: principal.Agent}, {Preset: principal.Viewer}, {Preset: principal.Console}, {Preset: principal.Handler},
		{Allow: []string{"*"}}, {Allow: []string{"Memory.*"}}, {Preset: principal.Agent, ReadOnly: true}, {Preset: principal.Agent, Rate: 0.001},
	} {
		name := fmt.Sprintf("token%d", len(principals))
		p := kerneltest.Principal(t, principal.ID("id-"+name), name, g)
		principals = append(principals, p)
	}
	sent := 0
	next := func() string {
		sent++
		return secret(sent)
	}
	send := func(p *principal.Principal, kind message.Kind, name message.Type, data string) message.Message {
		t.Helper()
		got := w.as(p, message.Message{Kind: kind, Type: name, Data: json.RawMessage(data)})
		if found := secrets.Find(got.Data); got.Kind == message.KindError && found != nil {
			t.Errorf("an error for %s quotes %s: %s", p.Name(), found, got.Data)
		}
		return got
	}
	for _, p := range principals {
		for _, name := range []string{"Authorization", "X-Api-Key", "password", "client_secret"} {
			for _, to := range []string{server + "/", server + "/large", "http://127.0.0.1:1/", "nonsense://"} {
				for _, place := range placements {
					send(p, message.KindCommand, "Http.Fetch", place.put(to, name, next()))
				}
			}
		}
		// Malformed requests hold secrets too.
		send(p, message.KindCommand, "Http.Fetch", text(map[string]any{"url": server + "/?token=" + next(), "headers": "Authorization: " + next(), "password": next()}))
		send(p, message.KindQuery, "Http.Fetch", fetching(server, "headers", map[string]string{"Cookie": next()}))
		send(p, message.KindCommand, "Crypto.Seal", text(map[string]any{"plaintext": next(), "for": []string{"*"}}))
		send(p, message.KindCommand, "Crypto.Seal", text(map[string]any{"plaintext": next(), "key": next()}))
		send(p, message.KindCommand, "Crypto.Seal", text(map[string]any{"plaintext": []string{next()}}))
		send(p, message.KindQuery, "Crypto.Open", text(map[string]any{"ciphertext": next()}))
		send(p, message.KindQuery, "Memory.Get", text(map[string]any{"key": recordedText})) // which is no secret
		for _, to := range [][]string{{}, {host}, {"api.example.com"}, {"Mail.*"}} {
			box := send(p, message.KindCommand, "Crypto.Seal", text(map[string]any{"plaintext": next(), "for": to}))
			if may := p.May(principal.Target{Type: "Crypto.Seal", Kind: message.KindCommand}) == nil && p.Grant().Rate == 0; (box.Kind == message.KindReply) != may {
				t.Errorf("%s seals: %s", p.Name(), box.Data)
			}
			if box.Kind != message.KindReply {
				box = w.command("Crypto.Seal", "%s", text(map[string]any{"plaintext": next(), "for": to}))
			}
			var sealedText string
			if err := json.Unmarshal(box.Data, &sealedText); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{"/", "/large"} {
				got := send(p, message.KindCommand, "Http.Fetch", fetching(server+at, "headers", map[string]string{"X-Sealed": "Key " + sealedText}))
				if found := secrets.Find(got.Data); found != nil {
					t.Errorf("%s is shown %s: %s", p.Name(), found, got.Data)
				}
				may := p.May(principal.Target{Type: "Http.Fetch", Kind: message.KindCommand}) == nil && p.Grant().Rate == 0
				may = may && (len(to) == 0 && p.IsOwner() || len(to) == 1 && to[0] == host)
				if (got.Kind == message.KindReply) != may {
					t.Errorf("%s sends a secret for %v: %s", p.Name(), to, got.Data)
				}
			}
			send(p, message.KindQuery, "Crypto.Open", text(map[string]any{"ciphertext": sealedText}))
		}
	}
	if err := w.journal.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, p := range principals {
		if p.May(principal.Target{Type: "Message.List", Kind: message.KindQuery}) != nil || p.Grant().Rate > 0 {
			continue
		}
		search(t, "what "+p.Name()+" sees", func(look func(where string, b []byte)) {
			look("a search", w.as(p, message.Message{Kind: message.KindQuery, Type: "Message.Search", Data: json.RawMessage(`{"query":"hunter"}`)}).Data)
			for cursor := ""; ; {
				page := struct{ Cursor string }{}
				got := w.as(p, message.Message{Kind: message.KindQuery, Type: "Message.List", Data: fmt.Appendf(nil, `{"limit":1000%s}`, cursor)})
				look("a list", got.Data)
				if err := json.Unmarshal(got.Data, &page); err != nil || got.Kind != message.KindReply {
					t.Fatalf("%s: %s: %v", p.Name(), got.Data, err)
				}
				if page.Cursor == "" {
					return
				}
				cursor = fmt.Sprintf(`,"cursor":%q`, page.Cursor)
			}
		})
	}
	searchKept(t, w, dir)
}
