package mcp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/mcp/jsonrpc"
)

// versions are all of them.
var versions = append([]string{mcp.Stateless}, mcp.StatefulRevisions...)

// A client is what is known of the peer of an exchange.
type client struct {
	modern       bool
	version      string // version of the protocol
	capabilities []byte // JSON
	info         []byte // JSON: {name, version}, as the client sent it
	session      *session
}

// can reports whether the client has declared a capability.
func (c *client) can(capability string) bool {
	return len(jsonscan.Member(c.capabilities, capability)) > 0
}

// name returns what the client calls itself.
func (c *client) name() string {
	return cmp.Or(message.Clip(visible.Text(jsonscan.Unquote(jsonscan.Member(c.info, "name"))), 64), "an MCP client")
}

// modernClient reads what a request of the stateless era states about its client.
func modernClient(f *jsonrpc.Frame) (*client, *jsonrpc.Failure) {
	version, capabilities := jsonscan.Member(f.Meta, mcp.MetaVersion), jsonscan.Member(f.Meta, mcp.MetaCapabilities)
	switch {
	case len(version) <= 2 || version[0] != '"':
		return nil, jsonrpc.Invalid("Invalid params: _meta must have " + mcp.MetaVersion + ", such as " + mcp.Stateless)
	case !jsonrpc.Is(version, mcp.Stateless):
		return nil, unsupported(message.Clip(jsonscan.Unquote(version), 64))
	case len(capabilities) == 0 || capabilities[0] != '{':
		return nil, jsonrpc.Invalid("Invalid params: _meta must have " + mcp.MetaCapabilities + ", an object")
	}
	return &client{modern: true, version: mcp.Stateless, capabilities: capabilities, info: jsonscan.Member(f.Meta, mcp.MetaClientInfo)}, nil
}

// unsupported returns the failure for a version of the protocol that isn't served.
func unsupported(version string) *jsonrpc.Failure {
	return &jsonrpc.Failure{Code: mcp.UnsupportedVersion, Text: "Unsupported protocol version", Data: marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{versions, version})}
}

// known reports whether a version of the protocol is served.
func known(version string) bool { return slices.Contains(versions, version) }

// icon is a kernos from above: a ring that carries cups.
var icon = "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="#b3541e"><circle cx="16" cy="16" r="10" fill="none" stroke="#b3541e" stroke-width="2"/>`+
	`<circle cx="16" cy="6" r="4"/><circle cx="26" cy="16" r="4"/><circle cx="16" cy="26" r="4"/><circle cx="6" cy="16" r="4"/></svg>`))

// instructions describe the server as a whole to a model.
const instructions = "Kernos keeps memory, files, jobs, sealed secrets and history for agents. " +
	"Find operations with Syscall_Search, read what one takes with Syscall_Describe, and call any of them with Syscall_Call. " +
	"Use Memory_Set and Memory_Get for what should outlast this conversation. " +
	"For a reminder, start Notify.Send with Job_Start: {name: \"Notify.Send\", payload: {text}, at: \"in 8 seconds\"}. " +
	"Syscall.Register makes a new tool of JavaScript; Syscall_Describe says how."

// instructions are those for a caller, with how many tools aren't listed for it.
func (x *exchange) instructions(modern bool) string {
	caller := kernel.SenderIn(x.ctx).Principal()
	set, _ := x.s.toolsOf(caller)
	more := len(set.tools) - len(set.chosen(caller.ID(), x.choice, modern))
	if more == 0 {
		return instructions
	}
	return instructions + " " + strconv.Itoa(more) + " more operations aren't listed as tools: Syscall_Search finds them."
}

// A capability has what the server can do of one kind.
type capability map[string]bool

// capabilities returns what the server can do.
func capabilities(modern bool) any {
	extensions := map[string]capability{mcp.SkillsExtension: {"directoryRead": true}}
	if modern {
		extensions[mcp.TasksExtension] = capability{}
	}
	return map[string]any{
		"tools": capability{"listChanged": true}, "resources": capability{"subscribe": true, "listChanged": true}, "prompts": capability{"listChanged": true},
		"completions": capability{}, "logging": capability{}, "extensions": extensions,
	}
}

// initialize begins the stateful era.
func initialize(x *exchange) {
	c := x.client
	c.version = mcp.StatefulRevisions[0]
	if wanted := jsonscan.Unquote(jsonscan.Member(x.Params, "protocolVersion")); slices.Contains(mcp.StatefulRevisions, wanted) {
		c.version = wanted
	}
	c.capabilities, c.info = bytes.Clone(jsonscan.Member(x.Params, "capabilities")), bytes.Clone(jsonscan.Member(x.Params, "clientInfo"))
	x.respond(membersOf(struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    any             `json:"capabilities"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
		Instructions    string          `json:"instructions"`
	}{c.version, capabilities(false), x.s.about, x.instructions(false)}))
}

// discover answers server/discover of a client of the stateless era.
func discover(x *exchange) {
	x.respondFor(soon, membersOf(struct {
		SupportedVersions []string `json:"supportedVersions"`
		Capabilities      any      `json:"capabilities"`
		Instructions      string   `json:"instructions"`
	}{versions, capabilities(true), x.instructions(true)}))
}
