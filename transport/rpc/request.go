package rpc

import (
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// The codes of JSON-RPC's own errors, and ours.
const (
	codeParse          = -32700 // the frame isn't JSON
	codeInvalidRequest = -32600 // the frame is JSON, and no request
	codeNoMethod       = -32601 // no method of the service has the name that follows rpc.; another unknown method gets an error item
	codeInvalidParams  = -32602 // the params are neither an object nor a list, or lack what the method of the service needs
	codeTooMany        = -32005 // as many streams are open as a connection may have
	codeUnavailable    = -32006 // the kernel can't answer at the moment
	codeTooLarge       = -32003 // the response to a batch would be too long
	codeNotKept        = -32001 // a stream can't be resumed: its items are no longer kept
)

// failureNames are what programs call our errors. The others have theirs in JSON-RPC.
var failureNames = map[int]string{codeTooMany: "too_many_subscriptions", codeTooLarge: "response_too_large", codeNotKept: "not_kept", codeUnavailable: "unavailable"}

// failure is an error of JSON-RPC: for what isn't a call, and so has no stream.
type failure struct {
	code int
	text string
}

// public returns a failure for wires other than JSON-RPC.
func (f *failure) public() *message.Error {
	code := 422
	if f.code == codeNotKept {
		code = 410
	}
	return &message.Error{Code: code, Message: f.text}
}

// request is one call of JSON-RPC. Its parts are slices of the frame.
type request struct {
	id     []byte // the id's text as it was written; nil for a call that gets no answer
	method string
	params []byte // an object, a list, or nil

	// What the message of the call has beside its data: its kind, for a query that is called as
	// a command, and its metadata, an object. Both may be nil.
	kind, metadata []byte

	bad *failure
}

// describe sets the metadata of the call's message from the request. The error is a *message.Error.
func (r *request) describe(s *Service, m *message.Message) error {
	if jsonscan.Unquote(r.kind) == string(message.KindCommand) {
		m.Kind = message.KindCommand
	}
	if r.metadata == nil {
		return nil
	}
	about := &m.Metadata
	if id := jsonscan.Unquote(jsonscan.Member(r.metadata, "id")); id != "" {
		about.ID = message.ID(id)
	}
	about.Correlation = jsonscan.Unquote(jsonscan.Member(r.metadata, "correlation"))
	about.Causation = message.ID(jsonscan.Unquote(jsonscan.Member(r.metadata, "causation")))
	about.IdempotencyKey = jsonscan.Unquote(jsonscan.Member(r.metadata, "idempotencyKey"))
	about.Repeated = string(jsonscan.Member(r.metadata, "repeated")) == "true"
	about.Keep(r.metadata)
	return s.check(*about)
}

// check returns a *message.Error for metadata that no message can have. Wires of messages check it when
// they read one.
func (s *Service) check(metadata message.Metadata) error {
	about := message.Message{Kind: message.KindQuery, Type: "Ping", Data: emptyObject, Metadata: metadata}
	s.k.Stamp(&about)
	return about.Validate()
}

// maxBatch is how many calls a batch may have.
const maxBatch = 1000

// parse takes a frame apart. The failure is for a frame that is neither a call nor a batch.
func parse(scan *jsonscan.Scanner, frame []byte) (calls []request, batch bool, bad *failure) {
	if err := scan.Text(frame); err != nil {
		return nil, false, &failure{codeParse, "Parse error: " + message.Clip(err.Error(), 500)}
	}
	i := jsonscan.Space(frame, 0)
	switch frame[i] {
	case '{':
		return append(calls, parseCall(frame[i:])), false, nil
	case '[':
		jsonscan.Elements(frame[i:], 0, func(value []byte) bool {
			if value[0] != '{' {
				calls = append(calls, request{id: null, bad: &failure{codeInvalidRequest, "Invalid request: an element of a batch must be an object"}})
			} else {
				calls = append(calls, parseCall(value))
			}
			return len(calls) <= maxBatch
		})
		switch {
		case len(calls) == 0:
			return nil, false, &failure{codeInvalidRequest, "Invalid request: the batch is empty"}
		case len(calls) > maxBatch:
			return nil, false, &failure{codeInvalidRequest, "Invalid request: a batch may have " + strconv.Itoa(maxBatch) + " calls; send several"}
		}
		return calls, true, nil
	}
	return nil, false, &failure{codeInvalidRequest, "Invalid request: a call must be an object, or a list of objects"}
}

var null = []byte("null")

// parseCall reads an object, which may or may not be a call.
func parseCall(object []byte) request {
	var r request
	var version, method, id []byte
	jsonscan.Members(object, 0, func(name, value []byte) bool {
		switch string(name) {
		case `"jsonrpc"`:
			version = value
		case `"id"`:
			id = value
		case `"method"`:
			method = value
		case `"params"`:
			r.params = value
		case `"kind"`:
			r.kind = value
		case `"metadata"`:
			r.metadata = value
		}
		return true
	})
	invalid := func(why string) request {
		if id == nil {
			id = null
		}
		return request{id: id, bad: &failure{codeInvalidRequest, "Invalid request: " + why}}
	}
	if id != nil {
		switch c := id[0]; {
		case c == '"', c == '-', '0' <= c && c <= '9', c == 'n':
		default:
			id = nil
			return invalid("an id must be a string or a number")
		}
		if len(id) > message.MaxIDLength {
			id = nil
			return invalid("an id may have " + strconv.Itoa(message.MaxIDLength) + " bytes")
		}
	}
	if string(version) != `"2.0"` && jsonscan.Unquote(version) != "2.0" {
		return invalid(`the member jsonrpc must be "2.0"`)
	}
	if method == nil || method[0] != '"' {
		return invalid("the member method must be a string")
	}
	r.id, r.method = id, jsonscan.Unquote(method)
	if r.params != nil && r.params[0] != '[' && r.params[0] != '{' {
		r.bad = &failure{codeInvalidParams, "Invalid params: they must be a list or an object"}
	}
	return r
}

// appendResult appends a response of JSON-RPC. The result is JSON.
func appendResult(dst, id, result []byte) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = append(append(dst, `,"result":`...), result...)
	return append(dst, '}')
}

func appendFailure(dst, id []byte, f *failure) []byte {
	if id == nil {
		id = null
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = strconv.AppendInt(append(dst, `,"error":{"code":`...), int64(f.code), 10)
	dst = jsonscan.AppendQuoted(append(dst, `,"message":`...), f.text)
	if name, ours := failureNames[f.code]; ours {
		dst = append(append(append(dst, `,"data":{"name":"`...), name...), `"}`...)
	}
	return append(dst, "}}"...)
}

const resumeTakes = "Invalid params: service_resume takes the id of a subscription and the seq of the last item that came, 0 if none did"

// ResumeParams reads the parameters of service_resume in any of their forms.
func ResumeParams(params []byte) (id string, after int64, ok bool) {
	id, hasID := firstText(params, "subscription")
	after, err := strconv.ParseInt(string(parameter(params, 1, "after")), 10, 64)
	return id, after, hasID && err == nil
}

var noStream = &failure{codeNotKept, "Not kept: the stream no longer exists; make the call again"}
