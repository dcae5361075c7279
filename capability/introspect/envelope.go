package introspect

import "kernos/internal/jsonscan"

// envelope describes messages to a caller that knows nothing else.
var envelope = jsonscan.AppendCompact(nil, []byte(`{
	"message": {
		"description": "A request: one JSON object per line, at most 16384 bytes.",
		"type": "object",
		"properties": {
			"kind": {"enum": ["command", "query"], "description": "query for a syscall that is one; command for every other."},
			"type": {"type": "string", "description": "The syscall: Domain.Action."},
			"data": {"description": "What the syscall takes; Syscall.Describe has its schema."},
			"metadata": {
				"type": "object",
				"properties": {
					"id": {"type": "string", "maxLength": 256, "description": "Yours to choose; another for each message."},
					"timestamp": {"type": "integer", "description": "Milliseconds since 1970."},
					"correlation": {"type": "string", "maxLength": 256, "description": "The workflow that the message belongs to. Answers repeat it; Message.List and Message.Graph find all of it."},
					"causation": {"type": "string", "maxLength": 256, "description": "The id of the message that made you send this one."},
					"idempotencyKey": {"type": "string", "maxLength": 256, "description": "A command with the same key runs once. A repeated one gets the first answer, with \"repeated\":true in its metadata."}
				},
				"required": ["id", "timestamp"]
			}
		},
		"required": ["kind", "type", "data", "metadata"]
	},
	"example": {"kind": "command", "type": "Memory.Set", "data": {"key": "notes/1", "value": "milk"}, "metadata": {"id": "m1", "timestamp": 1735000000000, "correlation": "shopping"}},
	"reply": "Each request gets one answer, a reply or an error, of the request's type and with the request's id as metadata.causation. Answers of slow syscalls may come after those of later requests.",
	"events": "Messages of kind event may come before the answer, with the request's id as causation: Syscall.Progressed {message, percentage}, and those that emits lists. They ask nothing of you.",
	"error": {"kind": "error", "type": "Memory.Get", "data": {"code": 404, "message": "Key not found: notes/2"}, "metadata": {"id": "…", "timestamp": 1735000000001, "causation": "m2"}},
	"errors": [
		{"code": 400, "when": "the line isn't JSON"},
		{"code": 403, "when": "the caller may not do this; the message names the rule"},
		{"code": 404, "when": "no syscall has this type"},
		{"code": 409, "when": "whether a command with this idempotency key has run isn't known"},
		{"code": 413, "when": "the request is longer than a line, or the reply can't be given"},
		{"code": 422, "when": "the envelope breaks a rule, or data breaks the input schema; the message says where"},
		{"code": 429, "when": "too many requests"},
		{"code": 499, "when": "the call was canceled before it was done"},
		{"code": 500, "when": "the syscall failed; the kernel's log has the details"},
		{"code": 503, "when": "something is missing for now: try again later"},
		{"code": 504, "when": "there was no answer in time"},
		{"code": 507, "when": "the disk is full"}
	],
	"references": "A reply that doesn't fit into a line is {dataRef, size, mediaType}: dataRef says where the data is, and Blob.Read {ref} reads it in parts. A member may be a reference too: bodyRef in place of body. Members of requests whose names end in Ref take such a pointer: valueRef, contentRef. A stored value of this form is itself given by reference.",
	"http": "POST /v1/call/{module}/{method} takes data alone and answers with the reply's data; with Accept: text/event-stream, events and the answer come as server-sent events, and GET /v1/streams/{id} with Last-Event-ID resumes them. POST /v1/messages takes and answers lines such as these.",
	"next": "Syscall.List lists all syscalls, Syscall.Search {query} finds one by words, Syscall.Describe {name} or {names} describes it, Syscall.Call {type, data} calls it."
}`))

// envelopeSchema is the schema of the above.
const envelopeSchema = `{
	"type": "object",
	"description": "Without a name: what messages look like.",
	"properties": {
		"message": {"type": "object", "description": "JSON Schema of a request."},
		"example": {"type": "object", "description": "A request."},
		"reply": {"type": "string", "description": "How requests are answered."},
		"events": {"type": "string", "description": "What may come before the answer."},
		"error": {"type": "object", "description": "An error."},
		"errors": {"type": "array", "items": {"type": "object"}, "description": "The errors that every syscall may give."},
		"references": {"type": "string", "description": "How large data is given and taken."},
		"http": {"type": "string", "description": "How calls are made and streamed over HTTP."},
		"next": {"type": "string", "description": "Which syscalls to call next."}
	},
	"required": ["message", "example", "reply", "events", "error", "errors", "references", "http", "next"],
	"additionalProperties": false
}`
