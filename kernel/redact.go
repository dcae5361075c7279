package kernel

import (
	"bytes"
	"encoding/json"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/schema"
)

// What stands where something was that is not kept. They are JSON strings.
const (
	RedactedData = schema.Redacted // a secret
	RefusedData  = `"[refused]"`   // data of a message that no handler has seen
	OmittedData  = `"[omitted]"`   // data that is in the journal already
)

// Redact returns the data of a record as it may be kept, and whether it is not what it was.
// What is taken out is what a schema marks as secret (writeOnly, or the format password),
// what the definition's Redact takes out, the headers of HTTP that carry credentials
// wherever they stand, and every string that is clear text in a message about encryption.
// The message's data is not changed; what is returned may be the same. An error is made
// to be read, and stays as it is.
func Redact(r Record) (data json.RawMessage, changed bool) {
	m := r.Message
	data = m.Data
	if m.Kind == message.KindError {
		if r.Way == In && isCrypto(m.Type) { // nobody knows what its text says
			return json.RawMessage(RedactedData), true
		}
		return data, false
	}
	if r.Refused {
		return json.RawMessage(RefusedData), true
	}
	w := rewriter{clear: isCrypto(m.Type)}
	var marks *schema.Schema
	if s := r.Syscall; s != nil {
		w.clear = w.clear || isCrypto(s.Type)
		switch {
		case m.Kind == message.KindReply:
			if s.Recalls {
				return json.RawMessage(OmittedData), true
			}
			marks = s.Output
		case m.Kind.Asks():
			marks = s.Input
		}
		// Whatever comes from outside under this type may be a request that lost its way.
		if s.Redact != nil && (m.Kind.Asks() || r.Way == In) {
			data, changed = callRedact(s.Redact, data)
		}
	}
	w.headers = mayHoldHeaders(data)
	marked := marks != nil && marks.Sensitive()
	if !w.headers && !w.clear && !marked || len(data) == 0 {
		return data, changed
	}
	if !isJSON(data) { // it may be anywhere
		return json.RawMessage(RedactedData), true
	}
	again := false
	if w.headers || w.clear {
		data, again = w.rewrite(data)
		changed = changed || again
	}
	if marked { // last, since the name of a header may be marked
		data, again = marks.Redact(data)
		changed = changed || again
	}
	return data, changed
}

// callRedact calls a definition's Redact. A mistake in it must neither stop the kernel nor
// let a secret out.
func callRedact(f func(json.RawMessage) json.RawMessage, data json.RawMessage) (out json.RawMessage, changed bool) {
	defer func() {
		if recover() != nil {
			out, changed = json.RawMessage(RedactedData), true
		}
	}()
	out = f(data)
	if bytes.Equal(out, data) {
		return data, false
	}
	if !isJSON(out) {
		out = json.RawMessage(RedactedData)
	}
	return out, true
}

func isJSON(data []byte) bool {
	s := scanners.Get().(*jsonscan.Scanner)
	defer scanners.Put(s)
	return s.Text(data) == nil
}

func isCrypto(t message.Type) bool {
	const domain = "Crypto"
	return len(t) > len(domain) && t[len(domain)] == '.' && strings.EqualFold(string(t[:len(domain)]), domain)
}

// sealed is what a string begins with that is encrypted and may be kept.
const sealed = "pwenc:v1:"

// A rewriter copies data and leaves out what is secret whatever a schema says.
type rewriter struct {
	headers bool // there may be headers
	clear   bool // strings are clear text

	src, dst []byte
	copied   int // how much of src is in dst
}

// rewrite returns data, which must be JSON, without secrets, and whether there were any.
func (w *rewriter) rewrite(data []byte) ([]byte, bool) {
	w.src = data
	w.value(jsonscan.Space(data, 0))
	if w.dst == nil {
		return data, false
	}
	return append(w.dst, data[w.copied:]...), true
}

// cut leaves out the value at src[i] and returns the offset behind it.
func (w *rewriter) cut(i int) int {
	end := jsonscan.Skip(w.src, i)
	if string(w.src[i:end]) == RedactedData {
		return end // it has been before
	}
	if w.dst == nil {
		w.dst = make([]byte, 0, len(w.src)+64)
	}
	w.dst = append(append(w.dst, w.src[w.copied:i]...), RedactedData...)
	w.copied = end
	return end
}

// value goes over the value at src[i] and returns the offset behind it.
func (w *rewriter) value(i int) int {
	switch w.src[i] {
	case '{':
		return w.object(i)
	case '[':
		return w.array(i)
	}
	end := jsonscan.Skip(w.src, i)
	if w.src[i] == '"' && w.secret(w.src[i:end]) {
		return w.cut(i)
	}
	return end
}

// secret reports whether a string must not be kept wherever it stands.
func (w *rewriter) secret(token []byte) bool {
	text := unquoted(token)
	return w.clear && !bytes.HasPrefix(text, []byte(sealed)) || w.headers && hasHeaderLine(text)
}

// unquoted is the content of a string; part of it if it has no escapes.
func unquoted(token []byte) []byte {
	if bytes.IndexByte(token, '\\') < 0 {
		return token[1 : len(token)-1]
	}
	return []byte(jsonscan.Unquote(token))
}

func (w *rewriter) object(i int) int {
	pair := w.headers && isHeaderPair(w.src, i)
	i = jsonscan.Space(w.src, i+1)
	for w.src[i] != '}' {
		end := jsonscan.Skip(w.src, i)
		name := unquoted(w.src[i:end])
		i = jsonscan.Space(w.src, jsonscan.Space(w.src, end)+1)
		if w.headers && isSecretHeader(name) || pair && !isNameOfName(name) {
			i = w.cut(i)
		} else {
			i = w.value(i)
		}
		i = w.next(i)
	}
	return i + 1
}

func (w *rewriter) array(i int) int {
	i = jsonscan.Space(w.src, i+1)
	named := false // the element before is the name of a header: ["Cookie","x"]
	for w.src[i] != ']' {
		start := i
		if named {
			i, named = w.cut(i), false
		} else {
			i = w.value(i)
			named = w.headers && w.src[start] == '"' && isSecretHeader(unquoted(w.src[start:i]))
		}
		i = w.next(i)
	}
	return i + 1
}

// next passes over what stands between two values, and before a bracket.
func (w *rewriter) next(i int) int {
	i = jsonscan.Space(w.src, i)
	if w.src[i] == ',' {
		return jsonscan.Space(w.src, i+1)
	}
	return i
}
