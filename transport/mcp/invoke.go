package mcp

import (
	"bytes"
	"encoding/json"

	"kernos/internal/mcp"
	"kernos/kernel/connection"
	"kernos/message"
	"kernos/store/blobs"
	"kernos/transport/mcp/jsonrpc"
)

// invoke calls a syscall for the caller of the exchange. The error is a *message.Error. The function gets events; it may be nil.
func (x *exchange) invoke(t message.Type, data any, event func(message.Message)) (reply json.RawMessage, err error) {
	text, isText := data.(json.RawMessage)
	if !isText {
		if text, err = json.Marshal(data); err != nil {
			return nil, err
		}
	}
	m := message.Message{Kind: message.KindQuery, Type: t, Data: text}
	if s, ok := x.s.k.Registry().Lookup(t); ok {
		m.Kind = s.Kind
	}
	if wrong := x.describe(&m); wrong != "" {
		return nil, &message.Error{Code: 422, Message: wrong}
	}
	m.Metadata.IdempotencyKey = "" // the key belongs to the request, which may need several calls
	x.s.k.Stamp(&m)
	failed := connection.ServeOne(x.ctx, x.s.k, m, func(answer message.Message) {
		switch answer.Kind {
		case message.KindEvent:
			if event != nil {
				event(answer)
			}
		case message.KindReply:
			reply = bytes.Clone(answer.Data)
		case message.KindError:
			err = answer.Failure()
		}
	}, x.ctx.Done())
	if reply == nil && err == nil {
		err, _ = message.ErrorOf(failed)
	}
	return reply, err
}

// call is invoke, with the reply in a Go value.
func call[T any](x *exchange, t message.Type, data any) (out T, err error) {
	reply, err := x.invoke(t, data, nil)
	if err == nil {
		err = json.Unmarshal(reply, &out)
	}
	return out, err
}

// failedCall returns the failure for a request that has failed because a syscall did.
func (x *exchange) failedCall(err error) *jsonrpc.Failure {
	e, _ := message.ErrorOf(err)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.lacks != nil:
		return x.lacks
	case e.Code == 422:
		return &jsonrpc.Failure{Code: mcp.InvalidParams, Text: "Invalid params: " + e.Message, Data: e.Append(nil)}
	}
	return &jsonrpc.Failure{Code: mcp.InternalError, Text: e.Message, Data: e.Append(nil)}
}

// fetch returns what a pointer of a reply points to.
func (x *exchange) fetch(p *message.BlobPointer) ([]byte, error) {
	if x.s.opts.Resolve == nil {
		return nil, message.Errorf(501, "Large data can't be fetched here")
	}
	return x.s.opts.Resolve(blobs.WithRemote(x.ctx, nil), *p)
}

// nothingThere reports whether an error means that there is nothing for the caller: the folder doesn't
// exist, isn't for this caller, or has no mount.
func nothingThere(err error) bool {
	e, _ := message.ErrorOf(err)
	return e.Code == 403 || e.Code == 404 || e.Code == 502
}
