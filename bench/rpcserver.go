package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	geth "github.com/ethereum/go-ethereum/rpc"
	gobwas "github.com/gobwas/ws"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

// beRPC is a server of JSON-RPC over WebSocket, ours or that of go-ethereum, or one that
// looks at nothing. It prints its address and serves until it is killed.
func beRPC(which string) error {
	handler, err := map[string]func() (http.Handler, error){"kernos": kernosRPC, "geth": gethRPC, "floor": bareWebSocket}[which]()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, handler)
}

// item is what a subscription sends again and again.
var item = json.RawMessage(`{"number":123456,"hash":"0x5b1a4f0c3d7e9821","text":"an item of about a hundred bytes, as both send it"}`)

func kernosRPC() (http.Handler, error) {
	registry, err := kernel.NewRegistry()
	if err != nil {
		return nil, err
	}
	modules := []kernel.Module{introspect.Module(registry), {Name: "bench", Version: "1.0.0", Summary: "What is measured.", Syscalls: []kernel.Syscall{{
		Definition: kernel.Definition{
			Type:    "Bench.Items",
			Kind:    message.KindQuery,
			Summary: "Send items.",
			Input: schema.Input[struct {
				Count int `json:"count"`
			}](),
			Output:   schema.Any,
			Emits:    []kernel.EventDefinition{{Type: "Bench.Item", Summary: "An item."}},
			Behavior: kernel.Behavior{Runs: kernel.Slow},
		},
		Handler: func(_ context.Context, m message.Message, emit kernel.Emit) {
			var in struct{ Count int }
			_ = json.Unmarshal(m.Data, &in)
			for range in.Count {
				emit(m.Event("Bench.Item", item))
			}
			emit(m.Reply(nil))
		},
	}}}}
	for i := range 100 {
		m := kernel.Module{Name: fmt.Sprintf("module%d", i), Version: "1.0.0", Summary: "One of a hundred."}
		for j := range 10 {
			m.Syscalls = append(m.Syscalls, kernel.Query(kernel.Definition{
				Type: message.Type(fmt.Sprintf("Module%d.DoThing%d", i, j)), Summary: "One of a thousand.",
			}, func(context.Context, struct {
				Key   string   `json:"key" jsonschema_description:"Where it is."`
				Limit int      `json:"limit,omitempty" jsonschema:"minimum=1" jsonschema_description:"How much of it."`
				Tags  []string `json:"tags,omitempty" jsonschema_description:"Words to find it by."`
			}) (struct{}, error) {
				return struct{}{}, nil
			}))
		}
		modules = append(modules, m)
	}
	for _, m := range modules {
		if err := registry.Add(m); err != nil {
			return nil, err
		}
	}
	registry.All().Hash() // as the daemon does before it serves, for its log
	return ws.New(rpc.New(kernel.New(registry, nil), nil), nil), nil
}

// gethService is the same for go-ethereum.
type gethService struct{}

// Ping gives a value back.
func (gethService) Ping(in struct {
	Payload json.RawMessage `json:"payload"`
}) any {
	return in
}

// Items sends items.
func (gethService) Items(ctx context.Context, in struct{ Count int }) (*geth.Subscription, error) {
	notifier, ok := geth.NotifierFromContext(ctx)
	if !ok {
		return nil, geth.ErrNotificationsUnsupported
	}
	s := notifier.CreateSubscription()
	go func() {
		for range in.Count {
			if notifier.Notify(s.ID, item) != nil {
				return
			}
		}
	}()
	return s, nil
}

func gethRPC() (http.Handler, error) {
	s := geth.NewServer()
	s.SetBatchLimits(0, 0)
	if err := s.RegisterName("bench", gethService{}); err != nil {
		return nil, err
	}
	return s.WebsocketHandler([]string{"*"}), nil
}

// bareWebSocket answers each frame with as many bytes as a call of ours is answered with, and
// does nothing else: no server in Go that has a goroutine for each connection is faster.
func bareWebSocket() (http.Handler, error) {
	answer := gobwas.MustCompileFrame(gobwas.NewTextFrame([]byte(`{"type":"done"}` + strings.Repeat("x", 600))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, _, err := gobwas.UpgradeHTTP(r, w)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewReaderSize(conn, 16<<10)
		var out []byte
		for {
			h, err := gobwas.ReadHeader(in)
			if err != nil {
				return
			}
			if _, err := in.Discard(int(h.Length)); err != nil {
				return
			}
			if out = append(out, answer...); in.Buffered() > 0 {
				continue
			}
			if _, err := conn.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}), nil
}

// rpcServerFlag is for a process that is a server and nothing else.
func rpcServerFlag(which string) {
	if which != "" {
		fmt.Fprintln(os.Stderr, "bench:", beRPC(which))
		os.Exit(1)
	}
}
