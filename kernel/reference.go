package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/message"
)

// The media types of what is moved to a blob.
const (
	jsonType = "application/json"
	textType = "text/plain;charset=UTF-8"
)

// A Reference is the data of a reply that doesn't fit into a line: the data itself is in a
// blob. Blob.Read reads it.
type Reference struct {
	DataRef   message.BlobPointer `json:"dataRef"`
	Size      int64               `json:"size"` // bytes of the value
	MediaType string              `json:"mediaType"`
}

// Append appends r as JSON.
func (r *Reference) Append(dst []byte) []byte {
	dst = r.DataRef.Append(append(dst, `{"dataRef":`...))
	return append(appendExtent(dst, r.Size, r.MediaType), '}')
}

// appendExtent appends the members that stand beside a pointer.
func appendExtent(dst []byte, size int64, mediaType string) []byte {
	dst = strconv.AppendInt(append(dst, `,"size":`...), size, 10)
	return jsonscan.AppendQuoted(append(dst, `,"mediaType":`...), mediaType)
}

// ReferenceIn returns the pointer of a reply that is a [Reference], or one that a program has given:
// it may have no size and no media type.
func ReferenceIn(reply []byte) (p message.BlobPointer, ok bool) {
	pointer := jsonscan.Member(reply, "dataRef")
	if pointer == nil {
		return p, false
	}
	others := false
	jsonscan.Members(reply, 0, func(name, _ []byte) bool {
		switch string(jsonscan.Content(name)) {
		case "dataRef", "size", "mediaType":
		default:
			others = true
		}
		return !others
	})
	p, err := message.ParseBlobPointer(pointer)
	return p, err == nil && !others
}

// looksReferred reports whether a JSON value could be taken for a [Reference]: it is an object
// with a member dataRef.
func looksReferred(value []byte) (found bool) {
	if len(value) == 0 || value[0] != '{' || !bytes.Contains(value, []byte("dataRef")) && !bytes.Contains(value, []byte(`\u`)) {
		return false
	}
	jsonscan.Members(value, 0, func(name, _ []byte) bool {
		found = jsonscan.Unquote(name) == "dataRef"
		return !found
	})
	return found
}

// refer gives a reply that could be taken for a reference by reference, so that a reply with a
// member dataRef always is one. Programs give references of their own.
func (k *Kernel) refer(ctx context.Context, s *Syscall, m *message.Message) {
	if k.opts.Blobs == nil || s.Provider != BuiltIn || !looksReferred(m.Data) {
		return
	}
	p, err := k.put(ctx, m.Data)
	if err != nil {
		*m = k.unfit(s, m, err)
		return
	}
	m.Data = (&Reference{p, int64(len(m.Data)), jsonType}).Append(nil)
}

// TooLong returns the error for a request that is longer than a line. If the syscall takes large data by
// reference, the cause is how.
func (k *Kernel) TooLong(t message.Type, text string) *message.Error {
	e := &message.Error{Code: 413, Message: text}
	s, ok := k.registry.Lookup(t)
	if !ok {
		return e
	}
	declared := properties(s.Input)
	for _, p := range declared {
		if name, ok := strings.CutSuffix(p.Name, "Ref"); ok && declared.Has(name) {
			e.Cause = message.Errorf(413, `%s takes large data by reference: put it into a file, and send %s with a pointer to it, {"scheme":"file","path":"/…"}, in place of %s`, t, p.Name, name)
			return e
		}
	}
	return e
}

// referenceSchema describes a [Reference] in few words, as it stands in most descriptions.
const referenceSchema = `{"type":"object","description":"In place of a large reply: Blob.Read {ref: dataRef} reads it, in parts.",` +
	`"properties":{"dataRef":{"type":"object","description":"A BlobPointer."},"size":{"type":"integer","description":"In bytes."},"mediaType":{"type":"string","description":"application/json"}},"required":["dataRef","size","mediaType"],"additionalProperties":false}`

// WithoutReference returns what Reply was made of: a program may register what it was shown.
func WithoutReference(text json.RawMessage) json.RawMessage {
	keywords := jsonvalue.Members(text)
	forms := jsonvalue.Elements(keywords.Get("anyOf"))
	if len(forms) != 2 || !jsonvalue.Same(forms[1], json.RawMessage(referenceSchema)) {
		return text
	}
	own := jsonvalue.Members(forms[0])
	if definitions := keywords.Get("$defs"); definitions != nil {
		own = own.Set("$defs", definitions)
	}
	return own.Text()
}

// Reply returns the schema of what a caller gets: Output, and a [Reference] in its place where
// the reply may be too long for a line. A reply with secrets never is a reference.
func (d *Definition) Reply() json.RawMessage {
	own := d.Output.JSON()
	if d.Short || d.Output.Sensitive() {
		return own
	}
	reply := make(jsonscan.Object, 0, len(own)+len(referenceSchema)+64)
	definitions := jsonscan.Member(own, "$defs") // references expect $defs at the top of the schema
	if definitions != nil {
		own = jsonvalue.Members(own).Without("$defs").Text()
	}
	reply.JSON("anyOf", slices.Concat([]byte("["), own, []byte(","+referenceSchema+"]")))
	if definitions != nil {
		reply.JSON("$defs", definitions)
	}
	return json.RawMessage(reply.End())
}
