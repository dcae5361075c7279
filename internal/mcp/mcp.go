// Package mcp has the words of the Model Context Protocol that a server and a client share: its
// revisions, the codes of its errors, the names in _meta and headers, and how a result of a tool
// looks as the data of a syscall.
//
// The protocol has two eras. Up to [Stateful], a client begins with initialize, and the server
// remembers it. Since [Stateless], each request carries its own revision and capabilities.
package mcp

import (
	"encoding/base64"
	"strings"
)

// The newest revision of each era.
const (
	Stateful  = "2025-11-25"
	Stateless = "2026-07-28"
)

// StatefulRevisions are those of the first era, the newest first.
var StatefulRevisions = []string{Stateful, "2025-06-18", "2025-03-26", "2024-11-05"}

// MethodListen is the method that a client hears of changes by in the stateless era. Its response comes when the
// server stops.
const MethodListen = "subscriptions/listen"

// An Icon is an image of a server, or of what it offers, at an address or in a data: URI.
type Icon struct {
	Src      string   `json:"src"`
	MimeType string   `json:"mimeType,omitempty"`
	Sizes    []string `json:"sizes,omitempty"`
}

// TasksExtension is the name of the extension for tasks (SEP-2663) of the stateless era.
const TasksExtension = "io.modelcontextprotocol/tasks"

// The codes of errors.
const (
	ParseError       = -32700 // the message isn't JSON
	InvalidRequest   = -32600 // the message is JSON, and no request
	MethodNotFound   = -32601 // the method doesn't exist
	InvalidParams    = -32602 // the parameters don't fit the method
	InternalError    = -32603 // the request failed; data has the error of the syscall
	ResourceNotFound = -32002 // the resource doesn't exist: in the stateful era; later InvalidParams

	HeaderMismatch     = -32020 // a header of HTTP differs from the message
	MissingCapability  = -32021 // the client hasn't declared what the answer needs
	UnsupportedVersion = -32022 // the version of the protocol isn't served
)

// The members of _meta.
const (
	MetaVersion        = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo     = "io.modelcontextprotocol/clientInfo"
	MetaCapabilities   = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel       = "io.modelcontextprotocol/logLevel"
	MetaServerInfo     = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
)

// The headers of streamable HTTP.
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
	HeaderParam   = "Mcp-Param-" // followed by the name of a parameter
	HeaderSession = "Mcp-Session-Id"
)

// ContentTitle is the title of the output schema of a syscall whose reply is the result of a tool as
// the protocol writes it: {content, structuredContent}.
const ContentTitle = "MCP content"

// ContentSchema is the output schema of a syscall whose reply is the result of a tool as the
// protocol writes it: blocks of text, images, audio and resources. It reaches an MCP client
// unchanged.
const ContentSchema = `{"type":"object","title":"` + ContentTitle + `","properties":{"content":{"type":"array","description":"The blocks of the result: {type: text, text}, {type: image, data, mimeType}, and others of the Model Context Protocol.","items":{"type":"object","properties":{"type":{"type":"string"}},"required":["type"]}},"structuredContent":{"description":"The result as data."}},"required":["content"]}`

const (
	encodedBegin = "=?base64?"
	encodedEnd   = "?="
)

// EncodeHeader writes a text as the value of a header: as it is, or in base64 if it has characters
// that a header can't carry, or looks as if it were in base64.
func EncodeHeader(text string) string {
	plain := text == strings.TrimSpace(text) && !(strings.HasPrefix(text, encodedBegin) && strings.HasSuffix(text, encodedEnd))
	for i := 0; i < len(text) && plain; i++ {
		plain = text[i] >= ' ' && text[i] < 0x7F
	}
	if plain {
		return text
	}
	return encodedBegin + base64.StdEncoding.EncodeToString([]byte(text)) + encodedEnd
}

// DecodeHeader reads the value of a header that EncodeHeader wrote. It reports whether it is one.
func DecodeHeader(value string) (string, bool) {
	body, ok := strings.CutPrefix(value, encodedBegin)
	if !ok || !strings.HasSuffix(body, encodedEnd) {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(body, encodedEnd))
	return string(text), err == nil
}
