package rpc

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// ownNamespace is where the items come from that are the service's own.
const ownNamespace = "service"

// own returns what answers a method of the service itself that is a stream.
func (s *Service) own(method string) (func(st *stream, params []byte), bool) {
	switch method {
	case "service_schema":
		return func(st *stream, _ []byte) { st.answer("service.schema", s.schema()) }, true
	case "service_module_schema":
		return moduleSchema, true
	case "service_hash":
		return func(st *stream, _ []byte) {
			st.answer("service.hash", append(jsonscan.AppendQuoted([]byte(`{"hash":`), s.Hash()), '}'))
		}, true
	case "service_unsubscribe": // where there are no responses but items
		return unsubscribed, true
	}
	return nil, false
}

func moduleSchema(st *stream, params []byte) {
	namespace, ok := firstText(params, "namespace")
	if !ok {
		st.missing("module_schema", "the namespace of a module", "namespace", "A namespace that service_schema lists")
		return
	}
	if text, ok := st.svc.moduleSchema(namespace); ok {
		st.answer("service.module_schema", text)
		return
	}
	module := message.Clip(namespace, maxName)
	g := guidance{ErrorKind: moduleNotFound, Module: &module, Action: callServiceSchema}
	if near := nearNamespace(namespace, st.svc.k.Registry().Namespaces()); near != "" {
		g.Action, g.Namespace = callModuleSchema, near
	}
	st.refuse(404, "Module not found: "+module, g)
}

func unsubscribed(st *stream, params []byte) {
	id, ok := firstText(params, "subscription")
	if !ok {
		st.missing("unsubscribe", "the id of a subscription", "subscription", "The id of a stream")
		return
	}
	st.answer("service.unsubscribe", strconv.AppendBool(nil, st.svc.Unsubscribe(id)))
}

// missing answers a call of a method of the service's own without its one parameter.
func (st *stream) missing(method, takes, field, description string) {
	st.refuse(422, "Invalid params: service_"+method+" takes "+takes, guidance{
		ErrorKind: invalidParams, Method: new(ownNamespace + "." + method), Reason: "missing required field: " + field, Action: callServiceSchema,
		MethodSchema: json.RawMessage(`{"type":"object","properties":{"` + field + `":{"type":"string","description":"` + description + `"}},"required":["` + field + `"]}`),
	})
}

// plainMethods are those that are answered at once, without a stream.
var plainMethods = map[string]func(c *conn, dst []byte, r *request, t *task) []byte{
	"rpc.discover":        discover,
	"service_unsubscribe": unsubscribe,
	"service_resume":      resume,
}

func discover(c *conn, dst []byte, r *request, _ *task) []byte {
	return appendResult(dst, r.id, c.svc.OpenRPC())
}

// unsubscribe ends a stream. Its last items come before the response, unless it is resumed in
// the same batch: they come when the batch has its response then.
func unsubscribe(c *conn, dst []byte, r *request, _ *task) []byte {
	id, ok := firstText(r.params, "subscription")
	if !ok {
		return appendFailure(dst, r.id, &failure{codeInvalidParams, "Invalid params: service_unsubscribe takes the id of a subscription"})
	}
	return appendResult(dst, r.id, strconv.AppendBool(nil, c.svc.Unsubscribe(id)))
}

// Unsubscribe ends a stream and forgets it, as service_unsubscribe does. It reports whether
// there was such a stream.
func (s *Service) Unsubscribe(id string) bool {
	st := s.kept.find(id)
	if st == nil {
		return false
	}
	st.cancel()
	return true
}

// resume lets a stream go on here, from the item after the last that the caller has seen.
func resume(c *conn, dst []byte, r *request, t *task) []byte {
	id, after, ok := ResumeParams(r.params)
	if !ok {
		return appendFailure(dst, r.id, &failure{codeInvalidParams, resumeTakes})
	}
	st := c.svc.kept.find(id)
	if st == nil {
		return appendFailure(dst, r.id, noStream)
	}
	if bad := st.moveTo(c, after); bad != nil {
		return appendFailure(dst, r.id, bad)
	}
	t.run = func() { st.replay(c, after) }
	return appendResult(dst, r.id, jsonscan.AppendQuoted(nil, id))
}

const resumeTakes = "Invalid params: service_resume takes the id of a subscription and the seq of the last item that came, 0 if none did"

// ResumeParams reads the parameters of service_resume in any of their forms.
func ResumeParams(params []byte) (id string, after int64, ok bool) {
	id, hasID := firstText(params, "subscription")
	after, err := strconv.ParseInt(string(parameter(params, 1, "after")), 10, 64)
	return id, after, hasID && err == nil
}

var noStream = &failure{codeNotKept, "Not kept: there is no such stream any more; make the call again"}

// moveTo makes a connection the one that items go to, as soon as it is acknowledged.
func (st *stream) moveTo(c *conn, after int64) *failure {
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, ok := st.after(after); !ok {
		if after > st.seq || after < 0 {
			return &failure{codeInvalidParams, "Invalid params: the stream has " + strconv.FormatInt(st.seq, 10) + " items"}
		}
		return &failure{codeNotKept, "Not kept: the items up to " + strconv.FormatInt(st.seq-int64(st.logged), 10) + " are gone; make the call again"}
	}
	if st.at == c {
		st.held = true
		return nil
	}
	c.mu.Lock()
	full := !st.over && c.open >= c.svc.opts.Subscriptions
	if !full {
		c.streams[st] = true
		if st.over {
			c.retire(st)
		} else {
			c.open++
		}
	}
	c.mu.Unlock()
	if full {
		return &failure{codeTooMany, "Too many subscriptions: " + strconv.Itoa(c.svc.opts.Subscriptions) + " streams of this connection are open"}
	}
	st.detach()
	st.at, st.held = c, true
	return nil
}

// replay sends what is kept behind an item, after which new items follow.
func (st *stream) replay(c *conn, after int64) {
	st.mu.Lock()
	if st.at != c {
		st.mu.Unlock()
		return // it has moved on
	}
	frames, _ := st.after(after)
	for len(frames) > 0 {
		n := 4 + int(binary.LittleEndian.Uint32(frames))
		c.wire.Write(frames[4:n], true)
		frames = frames[n:]
	}
	st.held = false
	ended := st.ended
	st.mu.Unlock()
	c.wire.Flush()
	if ended {
		st.abandon(func() bool { return st.at == c && !st.held })
	}
}
