package mcp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/mcp"
)

// The client hears of a tool that is registered, and of a resource that changes.
func TestChanges(t *testing.T) {
	d, _ := serve(t, nil)
	c := connect(t, d, nil, "")
	c.initialize(`{}`)
	c.ask(1, "resources/subscribe", `"uri":"memory://watched"`)
	c.send(request(2, "tools/call", `"name":"Memory_Set","arguments":{"key":"watched","value":1}`))
	both := until(t, c, `"method":"notifications/resources/`) + until(t, c, `"method":"notifications/resources/`)
	check(t, "a value that comes", "["+strings.ReplaceAll(both, "}{", "},{")+"]", `"method":"notifications/resources/updated","params":{"uri":"memory://watched"}`, `"method":"notifications/resources/list_changed"`)
	c.send(request(3, "tools/call", `"name":"Syscall_Register","arguments":{"name":"Text.Shout","code":"export const handler = ({text}) => text.toUpperCase()","kind":"query","description":"Shouts.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"outputSchema":{"type":"string"}}`))
	until(t, c, `"method":"notifications/tools/list_changed"`)
	check(t, "the new tool is listed", c.ask(4, "tools/list", ``), `"name":"Text_Shout"`)
	check(t, "the new tool", c.ask(5, "tools/call", `"name":"Text_Shout","arguments":{"text":"hi"}`), `"text":"HI"`)
	// Stateless.
	c.send(request(6, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["memory://other"]},`+modernMeta))
	until(t, c, `notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":6},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["memory://other"]}}`)
	c.send(request(7, "tools/call", `"name":"Memory_Set","arguments":{"key":"other","value":1}`))
	// Both come before the key is deleted: a list that is as it was when the watch looks hasn't changed.
	both = until(t, c, `"io.modelcontextprotocol/subscriptionId":6}`) + until(t, c, `"io.modelcontextprotocol/subscriptionId":6}`)
	check(t, "a value that comes", "["+strings.ReplaceAll(both, "}{", "},{")+"]", `"method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":6},"uri":"memory://other"}`, `"method":"notifications/resources/list_changed"`)
	c.send(request(9, "tools/call", `"name":"Memory_Delete","arguments":{"key":"other"}`))
	until(t, c, `"method":"notifications/resources/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":6}}`)
	c.send(request(8, "tools/call", `"name":"Syscall_Unregister","arguments":{"name":"Text.Shout"}`))
	until(t, c, `"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":6}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`)
}

// The client hears of an agent or a skill that comes, changes or goes, through Kernos or behind its back: over both
// wires, in both eras, if its token may read it.
func TestPromptChanges(t *testing.T) {
	files := t.TempDir()
	d, address := serve(t, func(o *daemon.Options) { o.Files.Mounts = []string{"/=" + files} })
	defer http.DefaultClient.CloseIdleConnections()
	reader := kerneltest.Principal(t, "reader", "reader", principal.Grant{Preset: principal.Agent, Files: []string{"os://skills"}})
	// open returns what reads the notifications of a client, from when it hears of changes.
	open := map[string]func(t *testing.T) (next func() string){
		"lines, stateful": func(t *testing.T) func() string {
			c := connect(t, d, nil, "")
			c.initialize(`{}`)
			c.ask(1, "ping", ``)
			return c.next
		},
		"lines, stateless": func(t *testing.T) func() string {
			c := connect(t, d, reader, "")
			c.send(request(6, "subscriptions/listen", `"notifications":{"promptsListChanged":true},`+modernMeta))
			until(t, c, `"notifications":{"promptsListChanged":true}`)
			t.Cleanup(func() { c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`) })
			return c.next
		},
		"HTTP, stateful": func(t *testing.T) func() string {
			begun, _ := stream(t, address, "POST", request(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{}`))
			session := []string{"Mcp-Session-Id", begun.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
			stream(t, address, "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
			_, next := stream(t, address, "GET", ``, session...)
			return next
		},
		"HTTP, stateless": func(t *testing.T) func() string {
			_, next := stream(t, address, "POST", request(6, "subscriptions/listen", `"notifications":{"promptsListChanged":true},`+modernMeta), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
			if got := next(); !strings.Contains(got, `"notifications":{"promptsListChanged":true}`) {
				t.Errorf("acknowledged is %s", got)
			}
			return next
		},
	}
	skill := func(text string) error {
		folder := filepath.Join(files, "skills/tidy")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		whole := filepath.Join(t.TempDir(), "whole") // a file that is half written would be another change
		if err := os.WriteFile(whole, []byte("---\nname: tidy\ndescription: "+text+"\n---\n"), 0o600); err != nil {
			return err
		}
		return os.Rename(whole, filepath.Join(folder, "SKILL.md"))
	}
	owner := connect(t, d, nil, "")
	owner.initialize(`{}`)
	hears := make(map[string]func() string)
	for name, hear := range open {
		hears[name] = hear(t)
	}
	for about, change := range []func() error{
		func() error { return skill("Tidies.") },
		func() error { return skill("Tidies up.") },
		func() error {
			if got := owner.ask(7, "tools/call", `"name":"VFS_Write","arguments":{"uri":"os://skills/quick.md","content":"---\nname: quick\ndescription: Quick.\n---\n"}`); strings.Contains(got, `"isError"`) {
				return errors.New(got)
			}
			return nil
		},
		func() error { return os.RemoveAll(filepath.Join(files, "skills")) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		for name, next := range hears {
			got := next()
			for strings.Contains(got, "notifications/resources/list_changed") {
				got = next()
			}
			if !strings.Contains(got, `"method":"notifications/prompts/list_changed"`) {
				t.Errorf("%s, after change %d: %s", name, about, got)
			}
		}
	}
}

// A subscription ends with the input, and so before other requests that aren't answered: a client that closes its output waits for the end.
func TestSubscriptionEndsWithTheInput(t *testing.T) {
	stopped := make(chan struct{})
	d, _ := serve(t, func(o *daemon.Options) {
		hold := kernel.Definition{Type: "Fixture.Hold", Kind: message.KindQuery, Summary: "A fixture.", Input: schema.Written(`{"type":"object"}`), Output: schema.Any, Behavior: kernel.Behavior{Runs: kernel.Slow}}
		o.Modules = append(o.Modules, kernel.Module{Name: "fixture", Version: "1.0.0", Summary: "Fixtures.", Syscalls: []kernel.Syscall{
			hold.BindHandler(func(ctx context.Context, m message.Message, emit kernel.Emit) {
				<-ctx.Done()
				close(stopped)
			})}})
		o.Offers = []mcp.Offer{{Type: "Fixture.Hold", Resource: "hold://it", Name: "hold"}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	lines := request(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+modernMeta) + "\n" + request(2, "resources/read", `"uri":"hold://it",`+modernMeta) + "\n"
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- d.MCP().ServeLines(ctx, strings.NewReader(lines), write, "core")
		_ = write.Close()
	}()
	out := bufio.NewScanner(read)
	for out.Scan() && !strings.HasPrefix(out.Text(), `{"jsonrpc":"2.0","id":1,"result"`) {
	}
	select {
	case <-stopped:
		t.Error("it ends with the last request")
	default:
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, read) }()
	<-ended
}

// A client that watches and changes in one write hears of the change: what it watches is known before the next line is read.
func TestWatchAndChangeInOneWrite(t *testing.T) {
	d, _ := serve(t, nil)
	for id := range 20 {
		key, about := fmt.Sprintf("stateful/%d", id), fmt.Sprintf("stateless/%d", id)
		c := connect(t, d, nil, "")
		c.initialize(`{}`)
		set := `"name":"Memory_Set","arguments":{"key":"` + key + `","value":1}`
		c.send(request(1, "resources/subscribe", `"uri":"memory://`+key+`"`) + "\n" + request(2, "tools/call", set))
		until(t, c, `"method":"notifications/resources/updated","params":{"uri":"memory://`+key+`"}`)
		set = `"name":"Memory_Set","arguments":{"key":"` + about + `","value":1},` + modernMeta
		c.send(request(3, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["memory://`+about+`"]},`+modernMeta) + "\n" + request(4, "tools/call", set))
		until(t, c, `"method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3},"uri":"memory://`+about+`"}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	}
}
