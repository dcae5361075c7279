package journal

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
)

// What stands where something was. They are JSON strings.
const (
	redacted = `"[redacted]"` // a secret
	refused  = `"[refused]"`  // data of a message that no handler has seen
	omitted  = `"[omitted]"`  // data that are in the journal already
)

// Redact returns the data of a record as they may be kept, and whether they are not what
// they were. A [Redactor] does the same and remembers what it has learnt of a syscall.
func Redact(r kernel.Record) (data json.RawMessage, changed bool) {
	var x Redactor
	return x.Redact(r)
}

// Redact is the function [Redact] with what the journal has learnt of a syscall.
func (j *Journal) Redact(r kernel.Record) (data json.RawMessage, changed bool) {
	return j.redactor.Redact(r)
}

// A Redactor takes out of data what must not be kept: what a schema marks as secret
// (writeOnly, or the format password), what a definition's Redact takes out, the
// headers of HTTP that carry credentials wherever they stand, and every string that is
// clear text in a message about encryption. Its zero value is ready, and it is safe
// for concurrent use.
type Redactor struct {
	plans sync.Map // *kernel.Syscall → *plans
	count atomic.Int64
}

// maxPlans bounds what a Redactor keeps of syscalls that come and go.
const maxPlans = 4096

// plans says where the secrets of a syscall are. A nil plan means nowhere.
type plans struct{ input, output *plan }

func (x *Redactor) plansOf(s *kernel.Syscall) *plans {
	if p, ok := x.plans.Load(s); ok {
		return p.(*plans)
	}
	if x.count.Add(1) > maxPlans {
		x.plans.Clear()
		x.count.Store(1)
	}
	p := new(plans)
	if s.Input != nil && s.Input.Err() == nil {
		p.input = newPlan(s.Input.JSON())
	}
	if s.Output != nil && s.Output.Err() == nil {
		p.output = newPlan(s.Output.JSON())
	}
	x.plans.Store(s, p)
	return p
}

// Redact returns the data of a record as they may be kept, and whether they are not what
// they were. The data that came are not changed; what is returned may be the same.
func (x *Redactor) Redact(r kernel.Record) (data json.RawMessage, changed bool) {
	m := r.Message
	data = m.Data
	if m.Kind == message.KindError {
		return data, false // it is made to be read
	}
	if r.Refused {
		return json.RawMessage(refused), true
	}
	w := rewriter{headers: mayHoldHeaders(data), clear: isCrypto(m.Type)}
	if s := r.Syscall; s != nil {
		if s.Recalls && m.Kind == message.KindReply {
			return json.RawMessage(omitted), true
		}
		w.clear = w.clear || isCrypto(s.Type)
		switch {
		case m.Kind == message.KindReply:
			w.plan = x.plansOf(s).output
		case m.Kind.Asks():
			w.plan = x.plansOf(s).input
			if s.Redact != nil {
				if data = callRedact(s.Redact, m.Data); !bytes.Equal(data, m.Data) {
					changed = true
					w.headers = mayHoldHeaders(data)
				}
			}
		}
	}
	if w.plan == nil && !w.headers && !w.clear {
		return data, changed
	}
	rewritten, again := w.rewrite(data)
	return rewritten, changed || again
}

// callRedact calls a definition's Redact. A mistake in it must neither stop the kernel nor
// let a secret out.
func callRedact(f func(json.RawMessage) json.RawMessage, data json.RawMessage) (out json.RawMessage) {
	defer func() {
		if recover() != nil {
			out = json.RawMessage(redacted)
		}
	}()
	out = f(data)
	if len(out) == 0 {
		return json.RawMessage(redacted)
	}
	return out
}

func isCrypto(t message.Type) bool {
	const domain = "Crypto"
	return len(t) > len(domain) && t[len(domain)] == '.' && strings.EqualFold(string(t[:len(domain)]), domain)
}

// sealed is what a string begins with that is encrypted and may be kept.
const sealed = "pwenc:v1:"

// secretHeaders are the headers of HTTP that carry credentials, in lower case, without
// what programs put between words.
var secretHeaders = map[string]bool{
	"authorization": true, "proxyauthorization": true, "xauthorization": true,
	"cookie": true, "cookie2": true, "setcookie": true, "setcookie2": true,
	"apikey": true, "xapikey": true, "xgoogapikey": true, "xfunctionskey": true, "ocpapimsubscriptionkey": true,
	"xauthtoken": true, "xaccesstoken": true, "xamzsecuritytoken": true, "xvaulttoken": true, "xgitlabtoken": true,
	"privatetoken": true, "xcsrftoken": true, "xxsrftoken": true, "xsessiontoken": true, "xauthkey": true,
}

// maxHeader is longer than the longest of them with a dash between all letters of it.
const maxHeader = 48

// isSecretHeader reports whether a name, as it stands between quotes without escapes, is
// that of a header that carries credentials.
func isSecretHeader(name []byte) bool {
	if len(name) < len("cookie") || len(name) > maxHeader {
		return false
	}
	var plain [maxHeader]byte
	n := 0
	for _, c := range name {
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '-' || c == '_' || c == ' ':
			continue
		}
		plain[n] = c
		n++
	}
	return secretHeaders[string(plain[:n])]
}

// mayHoldHeaders reports whether data may hold the name of a header that carries
// credentials. Nearly all data hold none, and this looks for letters that stand
// in each of the names in few others.
func mayHoldHeaders(data []byte) bool {
	return holds(data, 'z', inAuthorization) || holds(data, 'Z', inAuthorization) ||
		holds(data, 'k', inCookieTokenKey) || holds(data, 'K', inCookieTokenKey) ||
		holds(data, '\\', inEscape)
}

func holds(data []byte, c byte, is func(data []byte, i int) bool) bool {
	for i := 0; ; i++ {
		n := bytes.IndexByte(data[i:], c)
		if n < 0 {
			return false
		}
		if i += n; is(data, i) {
			return true
		}
	}
}

// lower is the letter at data[i] in lower case, or 0.
func lower(data []byte, i int) byte {
	if i < 0 || i >= len(data) {
		return 0
	}
	return data[i] | 0x20
}

func inAuthorization(data []byte, i int) bool {
	return letterBefore(data, i) == 'i' && letterAfter(data, i) == 'a'
}

func inCookieTokenKey(data []byte, i int) bool {
	switch letterAfter(data, i) {
	case 'i':
		return letterBefore(data, i) == 'o'
	case 'e':
		switch letterBefore(data, i) {
		case 'o': // token
			return true
		case 'i', 's', 'n', 'h': // apikey, functionskey, subscriptionkey, authkey
			return true
		}
	}
	return false
}

func inEscape(data []byte, i int) bool { return i+1 < len(data) && data[i+1] == 'u' }

// letterBefore and letterAfter pass over what programs put between words.
func letterBefore(data []byte, i int) byte {
	for i--; i >= 0 && (data[i] == '-' || data[i] == '_' || data[i] == ' '); i-- {
	}
	return lower(data, i)
}

func letterAfter(data []byte, i int) byte {
	for i++; i < len(data) && (data[i] == '-' || data[i] == '_' || data[i] == ' '); i++ {
	}
	return lower(data, i)
}

// A rewriter copies data and leaves secrets out.
type rewriter struct {
	plan    *plan
	headers bool // there may be headers
	clear   bool // strings are clear text

	dst     []byte
	changed bool
}

// rewrite returns data without secrets. Data that are no JSON might hold them anywhere.
func (w *rewriter) rewrite(data []byte) ([]byte, bool) {
	var scan jsonscan.Scanner
	if len(data) == 0 {
		return data, false
	}
	if scan.Text(data) != nil {
		return []byte(redacted), true
	}
	w.dst = make([]byte, 0, len(data)+64)
	w.value(data, jsonscan.Space(data, 0), w.plan.start())
	if !w.changed {
		return data, false
	}
	return w.dst, true
}

func (w *rewriter) redact() {
	w.dst = append(w.dst, redacted...)
	w.changed = true
}

// value copies the value at b[i], which the nodes are about, and returns the offset
// behind it.
func (w *rewriter) value(b []byte, i int, at []*node) int {
	for _, n := range at {
		if n.secret {
			w.redact()
			return jsonscan.Skip(b, i)
		}
	}
	switch b[i] {
	case '{':
		return w.object(b, i, at)
	case '[':
		return w.array(b, i, at)
	}
	end := jsonscan.Skip(b, i)
	if b[i] == '"' && w.secretString(b[i:end]) {
		w.redact()
	} else {
		w.dst = append(w.dst, b[i:end]...)
	}
	return end
}

// secretString reports whether a string must not be kept wherever it stands.
func (w *rewriter) secretString(token []byte) bool {
	if w.clear && !strings.HasPrefix(jsonscan.Unquote(token), sealed) {
		return true
	}
	return w.headers && hasHeaderLine(unquoted(token))
}

// hasHeaderLine reports whether a line of text is a header that carries credentials, as in
// "Authorization: Bearer x".
func hasHeaderLine(text []byte) bool {
	for line := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if name, _, ok := bytes.Cut(line, []byte(":")); ok && isSecretHeader(bytes.TrimSpace(name)) {
			return true
		}
	}
	return false
}

// unquoted is the content of a string, as part of it if it has no escapes.
func unquoted(token []byte) []byte {
	if bytes.IndexByte(token, '\\') < 0 {
		return token[1 : len(token)-1]
	}
	return []byte(jsonscan.Unquote(token))
}

func (w *rewriter) object(b []byte, i int, at []*node) int {
	pair := w.headers && isHeaderPair(b, i)
	w.dst = append(w.dst, '{')
	i = jsonscan.Space(b, i+1)
	for first := true; b[i] != '}'; first = false {
		if !first {
			w.dst = append(w.dst, ',')
		}
		end := jsonscan.Skip(b, i)
		token := b[i:end]
		name := unquoted(token)
		w.dst = append(append(w.dst, token...), ':')
		i = jsonscan.Space(b, jsonscan.Space(b, end)+1)
		if w.headers && isSecretHeader(name) || pair && !isNameOfName(name) {
			w.redact()
			i = jsonscan.Skip(b, i)
		} else {
			i = w.value(b, i, members(at, string(name)))
		}
		if i = jsonscan.Space(b, i); b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
	}
	w.dst = append(w.dst, '}')
	return i + 1
}

// isHeaderPair reports whether the object at b[i] names a header that carries credentials,
// as in {"name":"Cookie","value":"x"}.
func isHeaderPair(b []byte, i int) bool {
	found := false
	jsonscan.Members(b, i, func(name, value []byte) bool {
		found = value[0] == '"' && isNameOfName(unquoted(name)) && isSecretHeader(unquoted(value))
		return !found
	})
	return found
}

// isNameOfName reports whether a member of a pair holds the name and not the value.
func isNameOfName(name []byte) bool {
	switch strings.ToLower(string(name)) {
	case "name", "key", "header", "field", "n", "k":
		return true
	}
	return false
}

func (w *rewriter) array(b []byte, i int, at []*node) int {
	w.dst = append(w.dst, '[')
	i = jsonscan.Space(b, i+1)
	named := false // the element before is the name of a header: ["Cookie","x"]
	for k := 0; b[i] != ']'; k++ {
		if k > 0 {
			w.dst = append(w.dst, ',')
		}
		if named {
			w.redact()
			i, named = jsonscan.Skip(b, i), false
		} else {
			start := i
			i = w.value(b, i, elements(at, k))
			named = w.headers && b[start] == '"' && isSecretHeader(unquoted(b[start:i]))
		}
		if i = jsonscan.Space(b, i); b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
	}
	w.dst = append(w.dst, ']')
	return i + 1
}
