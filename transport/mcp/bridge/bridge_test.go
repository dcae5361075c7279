package bridge_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/transport/mcp/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A line is one end of a connection, whose other end a test holds.
type line struct{ net.Conn }

func (l line) CloseWrite() error { return l.Close() }

// A bridge tells the client the outcome of its requests when a connection is lost, and the next server what it has to
// know. Each conversation is what the client and one server after the other send, and what each of them gets.
func TestBridge(t *testing.T) {
	const (
		lost   = "server gone"
		failed = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"The kernel has stopped or lost the connection before it answered. It may have done what was asked: check that, or call again if doing it twice is harmless"}}`
		list   = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		call   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Memory_Delete"}}`
		form   = `{"jsonrpc":"2.0","id":77,"method":"elicitation/create"}`
		hello  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`
		again  = `{"jsonrpc":"2.0","id":"kernos/1","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`
		ready  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		level  = `"method":"logging/setLevel","params":{"level":"info"}}`
		watch  = `"method":"resources/subscribe","params":{"uri":"memory://a"}}`
		leave  = `{"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"memory://a"}}`
		listen = `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen"}`
	)
	done := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }
	// "c>" is sent by the client and read by the server, "s>" the other way round; "s<" is read by the server, "c<" by
	// the client, and "c-" is sent by the server and isn't seen by the client.
	for name, steps := range map[string][]string{
		"a call isn't sent twice":                {"c>" + call, lost, "c<" + failed},
		"a list is, but not three times":         {"c>" + list, lost, "s<" + list, lost, "c<" + failed},
		"half of a line isn't passed on":         {"c>" + list, "s~" + `{"jsonrpc":"2.0","id":1,"result":{"to`, lost, "s<" + list, "s>" + done("1")},
		"what was cancelled isn't waited for":    {"c>" + call, "c>" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, lost, "c>" + list, "s>" + done("1")},
		"forms of the server are withdrawn":      {"s>" + form, lost, `c<{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`},
		"forms that are answered aren't":         {"s>" + form, "c>" + done("77"), lost, "c>" + list, "s>" + done("1")},
		"a session is continued":                 {"c>" + hello, "s>" + done("0"), "c>" + ready, `c>{"jsonrpc":"2.0","id":2,` + level, "s>" + done("2"), `c>{"jsonrpc":"2.0","id":3,` + watch, "s>" + done("3"), lost, "s<" + again, "s<" + ready, `s<{"jsonrpc":"2.0","id":"kernos/2",` + level, `s<{"jsonrpc":"2.0","id":"kernos/3",` + watch, "c-" + done(`"kernos/1"`), "c>" + leave, "s>" + done("5"), lost, "s<" + again, "s<" + ready},
		"what listens is continued, each time":   {"c>" + listen, "c-" + done("9"), lost, "s<" + listen, "c-" + done("9"), lost, "s<" + listen, "c>" + list, "s>" + done("1")},
		"initialize that wasn't answered is too": {"c>" + hello, lost, "s<" + hello, "s>" + done("0"), lost, "s<" + again},
	} {
		t.Run(name, func(t *testing.T) {
			clientIn, in := io.Pipe()
			out, clientOut := io.Pipe()
			here, there := net.Pipe()
			servers := make(chan net.Conn, 1)
			ended := make(chan error, 1)
			go func() {
				ended <- bridge.Run(context.Background(), line{here}, func(context.Context, bool) (bridge.Wire, error) {
					here, there := net.Pipe()
					servers <- there
					return line{here}, nil
				}, clientIn, clientOut)
				_ = clientOut.Close()
			}()
			client, server := bufio.NewReader(out), bufio.NewReader(there)
			read := func(who string, from *bufio.Reader, want string) {
				t.Helper()
				if got, err := from.ReadString('\n'); err != nil || got != want+"\n" {
					t.Errorf("%s gets %v: %s, not %s", who, err, got, want)
				}
			}
			write := func(to io.Writer, text string) {
				t.Helper()
				if _, err := io.WriteString(to, text); err != nil {
					t.Error(err)
				}
			}
			for _, step := range steps {
				if step == lost {
					_ = there.Close()
					there = nil
					continue
				}
				text := step[2:]
				if there == nil && step[:2] != "c<" {
					there = <-servers
					server.Reset(there)
				}
				switch step[:2] {
				case "c>":
					write(in, text+"\n")
					read("the server", server, text)
				case "s>":
					write(there, text+"\n")
					read("the client", client, text)
				case "c<":
					read("the client", client, text)
				case "s<":
					read("the server", server, text)
				case "c-":
					write(there, text+"\n")
				case "s~":
					write(there, text)
				}
			}
			if there == nil {
				there = <-servers
			}
			go func() { _, _ = io.Copy(io.Discard, there); _ = there.Close() }()
			_ = in.Close()
			if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
				t.Errorf("%v; the client also gets %s", err, rest)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("a server that doesn't come back is the reason of the end", func(t *testing.T) {
		here, there := net.Pipe()
		_ = there.Close()
		gone := errors.New("gone")
		in := strings.NewReader(list + "\n")
		if err := bridge.Run(context.Background(), line{here}, func(context.Context, bool) (bridge.Wire, error) { return nil, gone }, in, io.Discard); !errors.Is(err, gone) {
			t.Errorf("it ended with %v", err)
		}
	})
}
