package kernel

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
	"kernos/message"
	"kernos/schema"
)

// What stands where something was that is not kept. They are JSON strings.
const (
	RedactedData = secret.RedactedJSON // a secret
	RefusedData  = `"[refused]"`       // data of a message that no handler has seen
	OmittedData  = `"[omitted]"`       // data that is in the journal already
)

// Without returns a [Definition.Redact] that takes members out of a request: a search for a secret must not write the
// secret to the journal, and a search should not find itself.
func Without(names ...string) func(json.RawMessage) json.RawMessage {
	return func(data json.RawMessage) json.RawMessage {
		if len(data) == 0 || data[0] != '{' {
			return json.RawMessage(RedactedData)
		}
		return jsonscan.ReplaceMembers(data, func(name string, _ []byte) string {
			if slices.Contains(names, name) {
				return RedactedData
			}
			return ""
		})
	}
}

// How messages are looked at that are recorded, and those that are stored to be used later: in these, what only has the name
// of a credential may be what a user wants to be kept.
var (
	anything = secret.Strictness{Place: secret.Data, Clear: true}
	marked   = secret.Strictness{Place: secret.Unnamed, Clear: true}
)

// Redact returns the data of a record as it may be recorded, and whether it differs from the
// message's. It leaves out what a schema marks as secret (writeOnly, or the format password),
// what the definition's Redact takes out, what has the name of a credential ([secret.Named]),
// every string that is clear text in a message about encryption, and whatever of all this the
// request of the call has held, in each message of the call and of the calls that it makes.
// The message's data is not changed; what is returned may be the same.
func Redact(r Record) (data json.RawMessage, changed bool) {
	if r.call == nil {
		return r.redact(anything)
	}
	switch requested := r.Message == &r.call.request; {
	case requested && r.call.harmless.Load():
		data = r.Message.Data // an earlier call has found nothing to redact
	case requested:
		if data, changed = r.redact(anything); !changed {
			r.call.harmless.Store(true)
		}
		if !r.encrypts() {
			r.call.setSecrets(data, changed)
		}
	default:
		data, changed = r.redact(anything)
	}
	known := r.call.knownSecrets()
	if r.Message.Kind.Asks() {
		known = r.call.caller.knownSecrets() // the request's own are in the fields that its definition marks
	}
	if known == nil {
		return data, changed
	}
	data, found := known.HideJSON(data)
	return data, changed || found
}

// withoutMarked returns the data of a message of the call as it may be stored to be used later, and whether it differs. It
// leaves out what [Redact] does, except for what only has the name of a credential. An error is made to be shown, and has
// nothing of either.
func (c *Call) withoutMarked(m *message.Message) (data json.RawMessage, changed bool) {
	r := Record{Message: m, Syscall: c.syscall, call: c}
	if m.Kind == message.KindError {
		return Redact(r)
	}
	data, changed = r.redact(marked)
	data, found := c.markedSecrets().HideJSON(data)
	return data, changed || found
}

// markedSecrets returns the secrets that the definition marks in the call's request, nil if there are none.
func (c *Call) markedSecrets() *secret.Values {
	r := Record{Message: &c.request, Way: In, Syscall: c.syscall}
	left, changed := r.redact(secret.Strictness{Place: secret.Unnamed})
	if !changed || !jsonscan.Valid(c.request.Data) {
		return nil
	}
	return secret.Taken(c.request.Data, left, nil)
}

// RedactExtra returns the members of a message's metadata that Kernos doesn't know as they may be recorded, and whether they differ:
// without what has the name of a credential.
func RedactExtra(m *message.Message) (extra string, changed bool) {
	if m.Metadata.Extra == "" {
		return "", false
	}
	how := secret.Strictness{Place: secret.Data}
	text, changed := how.Redact([]byte("{" + m.Metadata.Extra + "}"))
	return string(text[1 : len(text)-1]), changed
}

func (r *Record) encrypts() bool {
	return isCrypto(r.Message.Type) || r.Syscall != nil && isCrypto(r.Syscall.Type)
}

// redact takes out what can be known from the message and its definition.
func (r *Record) redact(how secret.Strictness) (data json.RawMessage, changed bool) {
	m, s := r.Message, r.Syscall
	data = m.Data
	how.Clear = how.Clear && r.encrypts()
	switch {
	case r.Refused && (m.Kind != message.KindError || r.Way == In):
		return json.RawMessage(RefusedData), true
	case m.Kind == message.KindReply && s != nil && s.Answers == FromJournal:
		return json.RawMessage(OmittedData), true
	case m.Kind == message.KindError:
		if r.Way == In && (how.Clear || r.call == nil && s != nil && marking(s.Input) != nil) {
			return json.RawMessage(RedactedData), true // the error's text may repeat any part of the request
		}
		how.Clear = false // an error's text is made to be read
	}
	// Whatever a connection sends under this type may be a request that was misdirected.
	if s != nil && s.Redact != nil && (m.Kind.Asks() || r.Way == In && !isError(m)) {
		data, changed = callRedact(s.Redact, data)
	}
	first, second := r.marks()
	named := how.Place < secret.Unnamed && secret.MayHold(data)
	if !named && !how.Clear && first == nil && second == nil || len(data) == 0 {
		return data, changed
	}
	if !jsonscan.Valid(data) { // in text that isn't JSON, a secret may be anywhere
		return json.RawMessage(RedactedData), true
	}
	again := false
	if named || how.Clear {
		data, again = how.Redact(data)
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
// and repeats what was asked or is answered.
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
	if !jsonscan.Valid(out) {
		out = json.RawMessage(RedactedData)
	}
	return out, true
}

func isCrypto(t message.Type) bool {
	const domain = "Crypto"
	return len(t) > len(domain) && t[len(domain)] == '.' && strings.EqualFold(string(t[:len(domain)]), domain)
}

// noSecrets is the value for a call that knows no secrets, as nearly all calls.
var noSecrets = new(secret.Values)

// setSecrets notes what [Redact] has taken out of the call's request, which left data, and
// what the calls that made this one know. No message of the call may repeat these secrets
// to readers of the journal. The outcome is the same whenever it is computed.
func (c *Call) setSecrets(data json.RawMessage, changed bool) {
	if c.secrets.Load() != nil {
		return
	}
	known := c.caller.knownSecrets()
	if changed && jsonscan.Valid(c.request.Data) {
		known = secret.Taken(c.request.Data, data, known)
	}
	if known == nil {
		known = noSecrets
	}
	c.secrets.Store(known)
}

// knownSecrets returns the secrets that the call knows, nil if it knows none.
func (c *Call) knownSecrets() *secret.Values {
	if c == nil {
		return nil
	}
	if c.secrets.Load() == nil {
		r := Record{Message: &c.request, Way: In, Syscall: c.syscall}
		c.setSecrets(r.redact(secret.Strictness{Place: secret.Data}))
	}
	if known := c.secrets.Load(); known != noSecrets {
		return known
	}
	return nil
}

// hideSecrets takes the secrets that the call knows out of an error that a program fails with:
// an error is made to be shown, and its reader may not be the one who sent the request. The
// kernel's own errors hold no secrets, and are sent as they are.
func (c *Call) hideSecrets(m *message.Message) {
	known := c.knownSecrets()
	if known == nil {
		return
	}
	e := m.Failure().Map(known.Hide)
	m.Data = e.Append(nil)
	if m.Err != nil {
		m.Err = e
	}
}

// WithoutSecrets returns the data of a request to a syscall, or of its reply, as it may be recorded, and whether it
// differs: something in it seems to be a secret.
func WithoutSecrets(s *Syscall, kind message.Kind, data []byte) (kept []byte, changed bool) {
	return without(s, kind, data, anything)
}

// WithoutMarked is [WithoutSecrets] for data that is sent: what only has the name of a credential stays.
func WithoutMarked(s *Syscall, kind message.Kind, data []byte) (kept []byte, changed bool) {
	return without(s, kind, data, marked)
}

func without(s *Syscall, kind message.Kind, data []byte, how secret.Strictness) (kept []byte, changed bool) {
	m := message.Message{Kind: kind, Type: s.Type, Data: data}
	r := Record{Message: &m, Syscall: s}
	return r.redact(how)
}
