package rpc

import (
	"strconv"

	"kernos/message"
)

// own returns what answers a method of the service itself that is a stream.
func (s *Service) own(method string) (func(st *stream, params []byte), bool) {
	switch method {
	case "service_schema":
		return func(st *stream, _ []byte) { st.answer("service.schema", s.schema(st.view())) }, true
	case "service_module_schema":
		return moduleSchema, true
	case "service_hash":
		return func(st *stream, _ []byte) {
			st.answer("service.hash", marshal(map[string]string{"hash": st.view().Hash()}))
		}, true
	case "service_unsubscribe": // for wires that answer with items, not responses
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
	if text, ok := st.svc.moduleSchema(st.view(), namespace); ok {
		st.answer("service.module_schema", text)
		return
	}
	module := message.Clip(namespace, maxName)
	g := guidance{ErrorKind: moduleNotFound, Module: &module, Action: callServiceSchema}
	if near := nearNamespace(namespace, st.view().Namespaces()); near != "" {
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
	st.answer("service.unsubscribe", strconv.AppendBool(nil, st.svc.Unsubscribe(st.from.Principal(), id)))
}

// A textSchema is the schema of parameters that are one text.
type textSchema struct {
	Type       string                  `json:"type"`
	Properties map[string]textProperty `json:"properties"`
	Required   []string                `json:"required"`
}

type textProperty struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// missing answers a call of a method of the service's own without its one parameter.
func (st *stream) missing(method, takes, field, description string) {
	st.refuse(422, "Invalid params: service_"+method+" takes "+takes, guidance{
		ErrorKind: invalidParams, Method: new(ownNamespace + "." + method), Reason: "missing required field: " + field, Action: callServiceSchema,
		MethodSchema: marshal(textSchema{"object", map[string]textProperty{field: {"string", description}}, []string{field}}),
	})
}
