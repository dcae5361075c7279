// Package jsonrpc reads and writes the messages of JSON-RPC 2.0, as MCP uses them.
package jsonrpc

import (
	"encoding/json"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/message"
)

// MaxMessage is how many bytes a message may have, unless a server is set up otherwise.
const MaxMessage = 4 << 20

// A Failure is an error of JSON-RPC: a request that isn't a call of a tool, or can't become one.
type Failure struct {
	Code int
	Text string
	Data []byte // JSON, or nil
}

// Invalid returns the failure of a request whose parameters are wrong.
func Invalid(text string) *Failure { return &Failure{Code: mcp.InvalidParams, Text: text} }

// A Frame is one message of JSON-RPC. Its parts are slices of the text that it was read from.
type Frame struct {
	ID     []byte // the id's text as written; nil for a notification
	Method string // "" for a response
	Params []byte // an object, or nil
	Meta   []byte // params._meta, an object, or nil

	Result, Failed []byte // result or error of a response
}

// Parse reads a message. The failure is for an invalid message; the frame then has the id, if it has one.
func Parse(scan *jsonscan.Scanner, text []byte) (f Frame, bad *Failure) {
	if err := scan.Text(text); err != nil {
		f.ID = SalvagedID(message.SalvageLine(text))
		return f, &Failure{Code: mcp.ParseError, Text: "Parse error: " + message.Clip(err.Error(), 500)}
	}
	i := jsonscan.Space(text, 0)
	if text[i] == '[' {
		return f, &Failure{Code: mcp.InvalidRequest, Text: "Invalid request: batches aren't supported; send the messages one by one"}
	}
	if text[i] != '{' {
		return f, &Failure{Code: mcp.InvalidRequest, Text: "Invalid request: a message must be an object"}
	}
	var version, method []byte
	jsonscan.Members(text, i, func(name, value []byte) bool {
		switch string(name) {
		case `"jsonrpc"`:
			version = value
		case `"id"`:
			f.ID = value
		case `"method"`:
			method = value
		case `"params"`:
			f.Params = value
		case `"result"`:
			f.Result = value
		case `"error"`:
			f.Failed = value
		}
		return true
	})
	refuse := func(why string) (Frame, *Failure) {
		return f, &Failure{Code: mcp.InvalidRequest, Text: "Invalid request: " + why}
	}
	if f.ID != nil {
		c := f.ID[0]
		if c != '"' && c != '-' && (c < '0' || c > '9') || len(f.ID) > message.MaxIDLength {
			f.ID = nil
			return refuse("an id must be a string or a number, of at most " + strconv.Itoa(message.MaxIDLength) + " bytes")
		}
	}
	switch {
	case !Is(version, "2.0"):
		return refuse(`the member jsonrpc must be "2.0"`)
	case method == nil && (f.Result != nil || f.Failed != nil):
		return f, nil
	case method == nil || method[0] != '"':
		return refuse("the member method must be a string")
	}
	f.Method = jsonscan.Unquote(method)
	if f.Params != nil && f.Params[0] != '{' {
		return f, Invalid("Invalid params: params must be an object")
	}
	if f.Meta = jsonscan.Member(f.Params, "_meta"); f.Meta != nil && f.Meta[0] != '{' {
		return f, Invalid("Invalid params: _meta must be an object")
	}
	return f, nil
}

// SalvagedID returns the id of a request that can't be read as a whole, or nil.
func SalvagedID(s *message.Salvage) []byte {
	if method, _ := s.Member("method"); method == "" { // a response has an id of the server
		return nil
	}
	if id, _ := s.Member("id"); id != "" {
		return jsonscan.AppendQuoted(nil, id)
	}
	if id := s.Number("id"); id != "" {
		return []byte(id)
	}
	return nil
}

// Is reports whether a value is a JSON string with some text.
func Is(value []byte, text string) bool {
	if len(value) == len(text)+2 && value[0] == '"' && string(value[1:len(value)-1]) == text {
		return true
	}
	return jsonscan.Unquote(value) == text
}

// AppendFailure appends the response to a request that has failed.
func AppendFailure(dst, id []byte, f *Failure) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = strconv.AppendInt(append(dst, `,"error":{"code":`...), int64(f.Code), 10)
	dst = jsonscan.AppendQuoted(append(dst, `,"message":`...), f.Text)
	if f.Data != nil {
		dst = append(append(dst, `,"data":`...), f.Data...)
	}
	return append(dst, "}}"...)
}

// AppendNotification appends a notification. params is JSON, or nil.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(append(append(dst, `{"jsonrpc":"2.0","method":"`...), method...), '"')
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// CancelParams returns the parameters of notifications/cancelled. The id is JSON.
func CancelParams(id string) []byte {
	text, _ := json.Marshal(map[string]json.RawMessage{"requestId": json.RawMessage(id)}) // never fails
	return text
}
