package rpc

import (
	"context"
	"encoding/json"

	"kernos/kernel"
	"kernos/message"
)

// maxItem is how many bytes of data an item may have. What is larger goes to a blob.
const maxItem = 1<<20 - 4096

// emit takes the kernel's messages about the call. It has the type [kernel.Emit].
func (st *stream) emit(m message.Message) {
	if len(m.Data) > maxItem && st.origin != nil {
		m = st.svc.k.Fit(kernel.ActFor(context.Background(), st.from), m, maxItem, func(m *message.Message) int { return len(m.Data) })
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return // the stream was cancelled, so the message is dropped
	}
	switch m.Kind {
	case message.KindReply:
		st.note(m.Metadata.Extension(kernel.Note))
		st.reply(st.contentType(), m.Data)
	case message.KindError:
		e := message.ReadError(m.Data)
		if m.Err != nil {
			e.Via = m.Err.Nested()
		}
		if e.Code == 422 && st.params != nil {
			st.guide(adviseAbout(&st.route.Syscall.Definition, st.contentType(), st.params, e))
		}
		st.fail(e)
	case message.KindEvent:
		switch {
		case m.Type == kernel.DeprecatedEvent:
			if st.origin != nil {
				st.data(st.eventType(m.Type), m.Data, nil, true)
			} else if st.outcome != nil {
				_ = json.Unmarshal(m.Data, &st.outcome.Deprecated) // the kernel wrote it
			}
			return // the parameters are wanted still
		case st.origin == nil:
		case m.Type == kernel.Progressed:
			dst := st.begin(typeProgress, m.Via)
			st.put(appendProgress(dst, m.Data), false)
		case m.Type == kernel.ErrorOccurred: // the call continues
			st.put(appendError(st.begin(typeError, m.Via), message.ReadError(m.Data), true), false)
		default:
			st.data(st.eventType(m.Type), m.Data, m.Via, false)
		}
	}
	st.params = nil
}

// note passes on how the kernel has read the parameters, as progress.
func (st *stream) note(text string) {
	switch {
	case text == "":
	case st.outcome != nil:
		st.outcome.Note = text
	case st.origin != nil:
		st.put(appendProgress(st.begin(typeProgress, nil), marshal(struct {
			Message string `json:"message"`
		}{text})), false)
	}
}

// contentType returns that of the call's final value, and what guidance calls the method.
func (st *stream) contentType() string { return st.namespace + "." + st.route.Method }

// eventType returns the content type of an event. Most streams have one kind of them.
func (st *stream) eventType(t message.Type) string {
	if st.event != t {
		namespace, name := kernel.Method(t)
		st.event, st.content = t, namespace+"."+name
	}
	return st.content
}
