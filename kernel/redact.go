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
// wherever they stand, every string that is clear text in a message about encryption, and
// whatever of all this the request of the call has held, in each message of the call and of
// those that it makes. The message's data is not changed; what is returned may be the same.
func Redact(r Record) (data json.RawMessage, changed bool) {
	if r.call == nil {
		return r.redact(look{anywhere: true, clear: true})
	}
	switch requested := r.Message == &r.call.request; {
	case requested && r.call.harmless.Load():
		data = r.Message.Data // it has been looked at
	case requested:
		if data, changed = r.redact(look{anywhere: true, clear: true}); !changed {
			r.call.harmless.Store(true)
		}
		if !r.encrypts() {
			r.call.confide(data, changed)
		}
	default:
		data, changed = r.redact(look{anywhere: true, clear: true})
	}
	secrets := r.call.confidences()
	if r.Message.Kind.Asks() {
		secrets = r.call.caller.confidences() // its own are where its definition says
	}
	if secrets == nil {
		return data, changed
	}
	data, found := secrets.hide(data)
	return data, changed || found
}

// A look says how closely messages are looked at.
type look struct {
	anywhere bool // headers count in the middle of a text too
	clear    bool // every string counts in a message about encryption
}

// encrypts reports whether a message is about encryption.
func (r *Record) encrypts() bool {
	return isCrypto(r.Message.Type) || r.Syscall != nil && isCrypto(r.Syscall.Type)
}

// holdsSecrets reports whether a message must not be written to disk as it is, since
// something in it is meant to be a secret. A text that merely has the name of a header
// somewhere in it is not.
func holdsSecrets(m *message.Message, s *Syscall) bool {
	r := Record{Message: m, Syscall: s}
	_, found := r.redact(look{clear: true})
	return found
}

// redact takes out what can be known from the message and its definition.
func (r *Record) redact(how look) (data json.RawMessage, changed bool) {
	m, s := r.Message, r.Syscall
	data = m.Data
	how.clear = how.clear && r.encrypts()
	switch {
	case r.Refused && (m.Kind != message.KindError || r.Way == In):
		return json.RawMessage(RefusedData), true
	case m.Kind == message.KindReply && s != nil && s.Answers == FromJournal:
		return json.RawMessage(OmittedData), true
	case m.Kind == message.KindError:
		if r.Way == In && (how.clear || r.call == nil && s != nil && marking(s.Input) != nil) {
			return json.RawMessage(RedactedData), true // nobody knows what its text says
		}
		how.clear = false // it is made to be read
	}
	// Whatever comes from outside under this type may be a request that lost its way.
	if s != nil && s.Redact != nil && (m.Kind.Asks() || r.Way == In && !isError(m)) {
		data, changed = callRedact(s.Redact, data)
	}
	first, second := r.marks()
	headers := mayHoldHeaders(data)
	if !headers && !how.clear && first == nil && second == nil || len(data) == 0 {
		return data, changed
	}
	if !isJSON(data) { // it may be anywhere
		return json.RawMessage(RedactedData), true
	}
	again := false
	if headers || how.clear {
		w := rewriter{look: how, headers: headers}
		data, again = w.rewrite(data)
		changed = changed || again
	}
	for _, marks := range []*schema.Schema{first, second} { // last, since the name of a header may be marked
		if marks != nil {
			data, again = marks.Redact(data)
			changed = changed || again
		}
	}
	return data, changed
}

// marks returns the schemas that mark something in the message. An event has none of its own,
// and tells of what was asked or is answered.
func (r *Record) marks() (first, second *schema.Schema) {
	if r.Syscall == nil {
		return nil, nil
	}
	switch r.Message.Kind {
	case message.KindReply:
		return marking(r.Syscall.Output), nil
	case message.KindCommand, message.KindQuery:
		return marking(r.Syscall.Input), nil
	case message.KindEvent:
		return marking(r.Syscall.Input), marking(r.Syscall.Output)
	}
	return nil, nil
}

// marking returns a schema if it marks something as secret, and nil otherwise.
func marking(s *schema.Schema) *schema.Schema {
	if s == nil || !s.Sensitive() {
		return nil
	}
	return s
}

// isError reports whether a message is an error in form as well.
func isError(m *message.Message) bool {
	if m.Kind != message.KindError {
		return false
	}
	_, err := message.ParseError(m.Data)
	return err == nil
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
	look
	headers bool // there may be headers

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
	if string(w.src[i:end]) != RedactedData { // it may have been before
		w.put(i, end, []byte(RedactedData))
	}
	return end
}

// put writes something in the place of src[start:end].
func (w *rewriter) put(start, end int, token []byte) {
	if w.dst == nil {
		w.dst = make([]byte, 0, len(w.src)+64)
	}
	w.dst = append(append(w.dst, w.src[w.copied:start]...), token...)
	w.copied = end
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
	if w.src[i] == '"' {
		w.text(i, end)
	}
	return end
}

// text leaves out what must not be kept of the string at src[i:end], wherever it stands.
func (w *rewriter) text(i, end int) {
	text := unquoted(w.src[i:end])
	switch {
	case w.clear && !bytes.HasPrefix(text, []byte(sealed)):
		w.cut(i)
	case !w.headers:
	case !w.anywhere:
		if hasHeaderLine(text) {
			w.cut(i)
		}
	default:
		if kept, found := withoutHeaders(text); found {
			w.put(i, end, jsonscan.AppendQuoted(nil, string(kept)))
		}
	}
}

// withoutHeaders returns a text, which may be JSON itself, without the headers in it that
// carry credentials, and whether there were any.
func withoutHeaders(text []byte) ([]byte, bool) {
	if opensJSON(text) && mayHoldHeaders(text) && isJSON(text) {
		w := rewriter{look: look{anywhere: true}, headers: true}
		return w.rewrite(text)
	}
	return cutHeaders(text)
}

// opensJSON reports whether a text begins as an object or an array does.
func opensJSON(text []byte) bool {
	i := jsonscan.Space(text, 0)
	return i < len(text) && (text[i] == '{' || text[i] == '[')
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
