package kernel

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"kernos/internal/credential"
	"kernos/internal/jsonscan"
	"kernos/message"
)

const (
	// minConfidence is how many bytes a secret must have to be looked for in what a call
	// says. A shorter one can't be told from chance.
	minConfidence = 4

	// maxConfidences is how many secrets are looked for. If a request has more, nothing that
	// its call says is kept.
	maxConfidences = 256
)

// A confidence is what a call was told in confidence: what [Redact] takes out of its request,
// and out of that of the call that made it, for being where a secret belongs. Nothing that
// the call says may repeat it to whoever reads the journal.
type confidence struct {
	values   []string // the longest first
	replacer *strings.Replacer
}

var (
	nothing    = new(confidence) // as nearly all calls are told
	everything = new(confidence) // more than can be looked for
)

// confide notes what was taken out of the call's request, which left data. It is the same
// whenever it is found, so whoever is first may note it.
func (c *Call) confide(data json.RawMessage, changed bool) {
	if c.confided.Load() != nil {
		return
	}
	told := c.caller.confidences()
	if changed && isJSON(c.request.Data) && told != everything {
		var f findings
		if told != nil {
			f.values = slices.Clone(told.values)
		}
		f.compare(c.request.Data, data)
		told = f.confidence()
	}
	if told == nil {
		told = nothing
	}
	c.confided.Store(told)
}

// confidences returns what the call was told in confidence, nil if that is nothing.
func (c *Call) confidences() *confidence {
	if c == nil {
		return nil
	}
	if c.confided.Load() == nil {
		r := Record{Message: &c.request, Way: In, Syscall: c.syscall}
		c.confide(r.redact(look{anywhere: true}))
	}
	if s := c.confided.Load(); s != nothing {
		return s
	}
	return nil
}

// keepConfidence takes what the call was told in confidence out of an error that a program
// fails with: an error is made to be shown, and who reads it may not be who told. The
// kernel's own errors hold no secrets, and are sent as they are.
func (c *Call) keepConfidence(m *message.Message) {
	s := c.confidences()
	if s == nil {
		return
	}
	e := m.Err
	if e == nil {
		var err error
		if e, err = message.ParseError(m.Data); err != nil {
			return // vet has seen it
		}
	}
	e = s.hideError(e)
	m.Data = e.Append(nil)
	if m.Err != nil {
		m.Err = e
	}
}

func (s *confidence) hideError(e *message.Error) *message.Error {
	if e == nil {
		return nil
	}
	out := *e
	out.Message, out.Expected, out.Cause = s.hideText(e.Message), s.hideText(e.Expected), s.hideError(e.Cause)
	return &out
}

func (s *confidence) hideText(text string) string {
	switch {
	case text == "":
		return ""
	case s == everything:
		return redactedText
	}
	return s.replacer.Replace(text)
}

// hide returns data without the secrets, and whether there were any.
func (s *confidence) hide(data json.RawMessage) (json.RawMessage, bool) {
	if len(data) == 0 || string(data) == RedactedData {
		return data, false
	}
	if s == everything || !isJSON(data) {
		return json.RawMessage(RedactedData), true
	}
	var out []byte
	copied := 0
	for i := 0; i < len(data); {
		start := i
		switch c := data[i]; {
		case c == '"':
			i = jsonscan.Skip(data, start)
			text := jsonscan.Unquote(data[start:i])
			if hidden := s.replacer.Replace(text); hidden != text {
				out = jsonscan.AppendQuoted(append(out, data[copied:start]...), hidden)
				copied = i
			}
		case c == '-' || '0' <= c && c <= '9':
			i = jsonscan.Skip(data, start)
			if slices.Contains(s.values, string(data[start:i])) {
				out = append(append(out, data[copied:start]...), RedactedData...)
				copied = i
			}
		default:
			i++
		}
	}
	if copied == 0 {
		return data, false
	}
	out = append(out, data[copied:]...)
	if !isJSON(out) { // two names are the same now
		return json.RawMessage(RedactedData), true
	}
	return out, true
}

// findings are the values that a redaction has taken out.
type findings struct {
	values []string
}

// compare finds what was in a text and is not in what a redaction has left of it. Both are
// JSON.
func (f *findings) compare(was, is []byte) {
	was, is = was[jsonscan.Space(was, 0):], is[jsonscan.Space(is, 0):]
	switch {
	case string(was) == string(is):
	case was[0] == '{' && is[0] == '{':
		left := make(map[string][]byte)
		jsonscan.Members(is, 0, func(name, value []byte) bool {
			left[jsonscan.Unquote(name)] = value
			return true
		})
		jsonscan.Members(was, 0, func(name, value []byte) bool {
			if kept, ok := left[jsonscan.Unquote(name)]; ok {
				f.compare(value, kept)
			} else {
				f.all(value)
			}
			return true
		})
	case was[0] == '[' && is[0] == '[':
		left := elements(is)
		for i, value := range elements(was) {
			if i < len(left) {
				f.compare(value, left[i])
			} else {
				f.all(value)
			}
		}
	case was[0] == '"' && is[0] == '"':
		f.compareTexts(jsonscan.Unquote(was[:jsonscan.Skip(was, 0)]), jsonscan.Unquote(is[:jsonscan.Skip(is, 0)]))
	default:
		f.all(was)
	}
}

// compareTexts finds what stands in a text where the other one says that something was.
func (f *findings) compareTexts(was, is string) {
	if was == is {
		return
	}
	if opensJSON([]byte(was)) && isJSON([]byte(was)) && opensJSON([]byte(is)) && isJSON([]byte(is)) {
		f.compare([]byte(was), []byte(is))
		return
	}
	parts := strings.Split(is, redactedText)
	last := len(parts) - 1
	rest, aligned := strings.CutPrefix(was, parts[0])
	if aligned && last > 0 {
		rest, aligned = strings.CutSuffix(rest, parts[last])
	}
	var found []string
	for i := 1; aligned && i < last; i++ {
		var text string
		text, rest, aligned = strings.Cut(rest, parts[i])
		found = append(found, text)
	}
	found = append(found, rest)
	if !aligned || last == 0 { // it was written anew
		found = []string{was}
	}
	for _, text := range found {
		f.add(text)
	}
}

// all takes all strings and numbers of a value.
func (f *findings) all(value []byte) {
	switch value[0] {
	case '{':
		jsonscan.Members(value, 0, func(_, value []byte) bool {
			f.all(value)
			return true
		})
	case '[':
		for _, element := range elements(value) {
			f.all(element)
		}
	case '"':
		f.add(jsonscan.Unquote(value[:jsonscan.Skip(value, 0)]))
	case 't', 'f', 'n':
	default:
		f.add(string(value[:jsonscan.Skip(value, 0)]))
	}
}

// elements are those of the array that a text begins with.
func elements(text []byte) (all [][]byte) {
	for i := jsonscan.Space(text, 1); text[i] != ']'; {
		end := jsonscan.Skip(text, i)
		all = append(all, text[i:end])
		if i = jsonscan.Space(text, end); text[i] == ',' {
			i = jsonscan.Space(text, i+1)
		}
	}
	return all
}

// add adds a secret and what of it may stand alone, as they are and as they stand in JSON
// and URLs.
func (f *findings) add(text string) {
	if len(f.values) > maxConfidences {
		return
	}
	for _, plain := range append(credential.Parts(text), text) {
		plain = strings.TrimSpace(plain)
		quoted := jsonscan.AppendQuoted(nil, plain)
		for _, form := range []string{plain, string(quoted[1 : len(quoted)-1]), url.QueryEscape(plain), url.PathEscape(plain)} {
			if len(form) >= minConfidence && !slices.Contains(f.values, form) {
				f.values = append(f.values, form)
			}
		}
	}
}

// confidence returns what was found, nil if it is nothing.
func (f *findings) confidence() *confidence {
	if len(f.values) == 0 {
		return nil
	}
	if len(f.values) > maxConfidences {
		return everything
	}
	slices.SortStableFunc(f.values, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, value := range f.values {
		pairs = append(pairs, value, redactedText)
	}
	return &confidence{values: f.values, replacer: strings.NewReplacer(pairs...)}
}
