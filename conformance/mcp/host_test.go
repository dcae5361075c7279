//go:build linux && amd64

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"kernos/daemon"
	"kernos/message"
)

// hostVariable makes this test binary the client that the suites start: a whole Kernos, which mounts
// the server at the address that is its last argument, and uses all that the server offers.
const hostVariable = "KERNOS_TEST_MCP_HOST"

func TestMain(m *testing.M) {
	if os.Getenv(hostVariable) == "" {
		os.Exit(m.Run())
	}
	if err := beHost(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scenario is what a suite tells the client beside the address.
type scenario struct {
	ClientID  string `json:"client_id"`
	Secret    string `json:"client_secret"`
	Key       string `json:"private_key_pem"`
	ToolCalls []struct {
		Name      string
		Arguments map[string]any
	}
}

type host struct{ *daemon.Daemon }

func beHost(url string) (err error) {
	home, err := os.MkdirTemp("", "kernos-mcp-host")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	d, err := daemon.Open(&daemon.Options{Home: home})
	if err != nil {
		return err
	}
	h := host{d}
	defer func() { err = errors.Join(err, d.Close()) }()
	var told scenario
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			return err
		}
	}
	input := map[string]any{"name": "suite", "url": url, "forms": "defaults"}
	switch {
	case strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/client-credentials"):
		input["client"] = map[string]string{"id": told.ClientID, "secret": told.Secret, "key": told.Key, "grant": "client_credentials"}
	case told.ClientID != "":
		input["client"] = map[string]string{"id": told.ClientID, "secret": told.Secret}
	case strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/"):
		input["client"] = map[string]string{"id": "https://conformance-test.local/client-metadata.json"}
	}
	var mounted struct {
		Tools              []struct{ Type, Name string }
		Resources, Prompts []struct{ File string }
	}
	if err := h.call("Mcp.Add", input, &mounted); err != nil {
		return err
	}
	var seen json.RawMessage
	for _, tool := range mounted.Tools {
		arguments, wanted := told.arguments(tool.Name)
		if !wanted {
			continue
		}
		if arguments == nil {
			var described struct {
				Input   json.RawMessage
				Example any
			}
			if err := h.call("Syscall.Describe", map[string]string{"name": tool.Type}, &described); err != nil {
				return err
			}
			switch arguments = described.Example; tool.Name {
			case "json_schema_2020_12_tool": // what was seen of its schema is the argument of the next one
				seen = described.Input
				continue
			case "json_schema_echo":
				arguments = map[string]any{"schema": seen}
			}
		}
		err := h.call(message.Type(tool.Type), arguments, new(any))
		if e, ok := errors.AsType[*message.Error](err); ok && e.Code == 503 { // it wants other credentials
			if err = h.call("Mcp.Refresh", map[string]string{"name": "suite"}, new(any)); err == nil {
				err = h.call(message.Type(tool.Type), arguments, new(any))
			}
		}
		if err != nil {
			return err
		}
	}
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") == "sep-2640-client-no-prefetch" {
		return nil // nothing wants a file: mounting has read none
	}
	for _, one := range append(mounted.Resources, mounted.Prompts...) {
		if err := h.call("VFS.Read", map[string]string{"uri": one.File}, new(any)); err != nil {
			return err
		}
	}
	return nil
}

// arguments returns those that a suite wants for a tool; nil means any. If it wants some tools called,
// the others aren't.
func (s *scenario) arguments(tool string) (arguments any, wanted bool) {
	for _, c := range s.ToolCalls {
		if c.Name == tool {
			for name, value := range c.Arguments {
				if value == nil { // the schema doesn't allow it, so no caller of Kernos can send it
					delete(c.Arguments, name)
				}
			}
			return c.Arguments, true
		}
	}
	return nil, len(s.ToolCalls) == 0
}

// call calls a syscall. If a person is to log in, it does what the browser would.
func (h host) call(what message.Type, input, out any) error {
	data, err := json.Marshal(input)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	m, err := h.Call(ctx, message.Message{Kind: message.KindCommand, Type: what, Data: data}, func(event message.Message) {
		var e struct{ URL string }
		if json.Unmarshal(event.Data, &e) == nil && e.URL != "" {
			go func() {
				if answer, err := http.Get(e.URL); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
			}()
		}
	})
	if err != nil {
		return err
	}
	if m.Kind == message.KindError {
		return fmt.Errorf("%s %s: %w", what, data, m.Failure())
	}
	return json.Unmarshal(m.Data, out)
}
