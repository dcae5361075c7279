package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	mark3labs "github.com/mark3labs/mcp-go/mcp"
	mark3server "github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpPeers are servers of the Model Context Protocol that others have written, each with an echo,
// in the fastest way that its options have: without sessions, answering with JSON.
var mcpPeers = map[string]func() (handler http.Handler, stdio func() error){
	"go-sdk": func() (http.Handler, func() error) {
		s := gosdk.NewServer(&gosdk.Implementation{Name: "bench", Version: "1.0.0"}, nil)
		type text struct {
			Message string `json:"message" jsonschema:"what to say"`
		}
		type said struct {
			Echo string `json:"echo"`
		}
		gosdk.AddTool(s, &gosdk.Tool{Name: "Echo", Description: "Return a message unchanged."},
			func(_ context.Context, _ *gosdk.CallToolRequest, in text) (*gosdk.CallToolResult, said, error) {
				return nil, said{in.Message}, nil
			})
		return gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s }, &gosdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}),
			func() error { return s.Run(context.Background(), &gosdk.StdioTransport{}) }
	},
	"floor": func() (http.Handler, func() error) { // looks at nothing: no server on net/http is faster
		answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 300) + `"}]}}`)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
		}), nil
	},
	"mark3labs": func() (http.Handler, func() error) {
		s := mark3server.NewMCPServer("bench", "1.0.0")
		s.AddTool(mark3labs.NewTool("Echo", mark3labs.WithDescription("Return a message unchanged."), mark3labs.WithString("message", mark3labs.Required())),
			func(_ context.Context, r mark3labs.CallToolRequest) (*mark3labs.CallToolResult, error) {
				message, err := r.RequireString("message")
				if err != nil {
					return mark3labs.NewToolResultError(err.Error()), nil
				}
				return mark3labs.NewToolResultStructured(map[string]string{"echo": message}, `{"echo":"`+message+`"}`), nil
			})
		return mark3server.NewStreamableHTTPServer(s, mark3server.WithStateLess(true)), func() error { return mark3server.ServeStdio(s) }
	},
}

// mcpPeerFlag is for a process that is such a server and nothing else: NAME serves HTTP and prints its
// address, stdio:NAME serves standard input.
func mcpPeerFlag(which string, stdio bool) {
	if which == "" {
		return
	}
	handler, run := mcpPeers[which]()
	if !stdio {
		run = func() error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			fmt.Println(l.Addr())
			mux := http.NewServeMux()
			mux.Handle("/mcp", handler)
			return http.Serve(l, mux)
		}
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
