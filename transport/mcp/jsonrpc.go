package mcp

import (
	"encoding/json"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/message"
)

// A failure is an error of JSON-RPC: a request that isn't a call of a tool, or can't become one.
type failure struct {
	code int
	text string
	data []byte // JSON, or nil
}

func invalid(text string) *failure { return &failure{code: mcp.InvalidParams, text: text} }

// A frame is one message of JSON-RPC. Its parts are slices of the text that it was read from.
type frame struct {
	id     []byte // as written; nil for a notification
	method string // "" for a response
	params []byte // an object, or nil
	meta   []byte // params._meta, an object, or nil

	result, failed []byte // of a response
}

// parse reads a message. The failure is for what isn't one; the frame then has the id, if it has one.
func parse(scan *jsonscan.Scanner, text []byte) (f frame, bad *failure) {
	if err := scan.Text(text); err != nil {
		f.id = salvagedID(message.SalvageLine(text))
		return f, &failure{code: mcp.ParseError, text: "Parse error: " + message.Clip(err.Error(), 500)}
	}
	i := jsonscan.Space(text, 0)
	if text[i] == '[' {
		return f, &failure{code: mcp.InvalidRequest, text: "Invalid request: batches aren't supported; send the messages one by one"}
	}
	if text[i] != '{' {
		return f, &failure{code: mcp.InvalidRequest, text: "Invalid request: a message must be an object"}
	}
	var version, method []byte
	jsonscan.Members(text, i, func(name, value []byte) bool {
		switch string(name) {
		case `"jsonrpc"`:
			version = value
		case `"id"`:
			f.id = value
		case `"method"`:
			method = value
		case `"params"`:
			f.params = value
		case `"result"`:
			f.result = value
		case `"error"`:
			f.failed = value
		}
		return true
	})
	refuse := func(why string) (frame, *failure) {
		return f, &failure{code: mcp.InvalidRequest, text: "Invalid request: " + why}
	}
	if f.id != nil {
		c := f.id[0]
		if c != '"' && c != '-' && (c < '0' || c > '9') || len(f.id) > message.MaxIDLength {
			f.id = nil
			return refuse("an id must be a string or a number, of at most " + strconv.Itoa(message.MaxIDLength) + " bytes")
		}
	}
	switch {
	case !is(version, "2.0"):
		return refuse(`the member jsonrpc must be "2.0"`)
	case method == nil && (f.result != nil || f.failed != nil):
		return f, nil
	case method == nil || method[0] != '"':
		return refuse("the member method must be a string")
	}
	f.method = jsonscan.Unquote(method)
	if f.params != nil && f.params[0] != '{' {
		return f, invalid("Invalid params: params must be an object")
	}
	if f.meta = jsonscan.Member(f.params, "_meta"); f.meta != nil && f.meta[0] != '{' {
		return f, invalid("Invalid params: _meta must be an object")
	}
	return f, nil
}

// salvagedID returns the id of a request that can't be read as a whole, or nil.
func salvagedID(s *message.Salvage) []byte {
	if method, _ := s.Member("method"); method == "" { // it may be a response, whose id is the server's
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

// textOf is the text of a JSON string, or "" for anything else.
func textOf(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	return jsonscan.Unquote(value)
}

// is reports whether a value is a JSON string with some text.
func is(value []byte, text string) bool {
	if len(value) == len(text)+2 && value[0] == '"' && string(value[1:len(value)-1]) == text {
		return true
	}
	return textOf(value) == text
}

// appendFailure appends the response to a request that has failed.
func appendFailure(dst, id []byte, f *failure) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = strconv.AppendInt(append(dst, `,"error":{"code":`...), int64(f.code), 10)
	dst = jsonscan.AppendQuoted(append(dst, `,"message":`...), f.text)
	if f.data != nil {
		dst = append(append(dst, `,"data":`...), f.data...)
	}
	return append(dst, "}}"...)
}

// appendNotification appends a notification. params is JSON, or nil.
func appendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(append(append(dst, `{"jsonrpc":"2.0","method":"`...), method...), '"')
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// cancelParams returns the parameters of notifications/cancelled. The id is JSON.
func cancelParams(id string) []byte {
	text, _ := json.Marshal(map[string]json.RawMessage{"requestId": json.RawMessage(id)}) // never fails
	return text
}
