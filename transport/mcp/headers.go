package mcp

import (
	"net/http"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/message"
	"kernos/transport/mcp/jsonrpc"
)

func mismatch(text string) *jsonrpc.Failure {
	return &jsonrpc.Failure{Code: mcp.HeaderMismatch, Text: "Header mismatch: " + text}
}

// checkVersion compares the version in the header with that in _meta, if it names one.
func checkVersion(h http.Header, f *jsonrpc.Frame) *jsonrpc.Failure {
	if v := jsonscan.Member(f.Meta, mcp.MetaVersion); v != nil && !jsonrpc.Is(v, h.Get(mcp.HeaderVersion)) {
		return mismatch("MCP-Protocol-Version must be the version that _meta names")
	}
	return nil
}

// checkHeaders compares the other headers of a request with its body: what stands between may have decided by them.
func checkHeaders(h http.Header, f *jsonrpc.Frame) *jsonrpc.Failure {
	if m := h.Get(mcp.HeaderMethod); m != f.Method {
		return mismatch("Mcp-Method must be the method of the request, " + message.Clip(f.Method, 100))
	}
	var name []byte
	switch f.Method {
	case "tools/call", "prompts/get":
		name = jsonscan.Member(f.Params, "name")
	case "resources/read":
		name = jsonscan.Member(f.Params, "uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		name = jsonscan.Member(f.Params, "taskId")
	default:
		return nil
	}
	got, ok := mcp.DecodeHeader(h.Get(mcp.HeaderName))
	if !ok || !jsonrpc.Is(name, got) && (name != nil || got != "") {
		return mismatch("Mcp-Name must be the name, the uri or the taskId in params, " + message.Clip(jsonscan.Unquote(name), 100))
	}
	return nil
}

// agrees reports whether headers repeat the parameters that are to be repeated.
func (t *tool) agrees(h http.Header, arguments []byte) bool {
	if len(t.mirrored) == 0 {
		return true
	}
	wanted := mcp.Headers(t.mirrored, arguments)
	for _, m := range t.mirrored {
		name := mcp.HeaderParam + m.Header
		want, _ := mcp.DecodeHeader(wanted.Get(name))
		if got, ok := mcp.DecodeHeader(h.Get(name)); !ok || got != want || len(h.Values(name)) != len(wanted.Values(name)) {
			return false
		}
	}
	return true
}
