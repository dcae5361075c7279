package http

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	nethttp "net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"kernos/internal/credential"
	"kernos/internal/jsonscan"
	"kernos/message"
)

// hidden is what stands in the place of a secret that came back.
const hidden = "[redacted]"

// secrets is what must not come back, in the forms in which a server may send it back:
// as it is, and as JSON, URLs, HTML, base64 and hexadecimal digits write it. What a server does to it beyond
// that is out of reach. Nil means that there are none.
type secrets struct {
	forms    []string // the longest first
	replacer *strings.Replacer
}

func (s *secrets) add(plain []byte) {
	for _, form := range formsOf(plain) {
		if !slices.Contains(s.forms, form) {
			s.forms = append(s.forms, form)
		}
	}
	slices.SortStableFunc(s.forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range s.forms {
		pairs = append(pairs, form, hidden)
	}
	s.replacer = strings.NewReplacer(pairs...)
}

// formsOf lists how servers write a secret. Blanks around it are not sent, so they do not
// come back.
func formsOf(plain []byte) []string {
	plain = bytes.Trim(plain, " \t")
	text := string(plain)
	forms := []string{
		text, html.EscapeString(text),
		base64.RawStdEncoding.EncodeToString(plain), base64.RawURLEncoding.EncodeToString(plain),
		hex.EncodeToString(plain), strings.ToUpper(hex.EncodeToString(plain)),
	}
	for _, quotes := range [][]string{{"&#34;", "&#39;"}, {"&quot;", "&#x27;"}, {"&quot;", "&#039;"}} {
		forms = append(forms, strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, quotes[0], "'", quotes[1]).Replace(text))
	}
	quoted := jsonscan.AppendQuoted(nil, text)
	for _, escaped := range []string{"", "<>&", "<>&'+`\""} { // most, Go, .NET
		for _, ascii := range []bool{false, true} {
			for _, digits := range []string{"%04x", "%04X"} {
				form := escapeJSON(string(quoted[1:len(quoted)-1]), escaped, ascii, digits)
				forms = append(forms, form, strings.ReplaceAll(form, "/", `\/`))
			}
		}
	}
	query := url.QueryEscape(text)
	component := strings.ReplaceAll(query, "+", "%20")
	for _, form := range []string{
		query, url.PathEscape(text), component,
		strings.ReplaceAll(component, "%2F", "/"),                                                          // Python
		strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(component), // JavaScript
	} {
		forms = append(forms, form, encoded.ReplaceAllStringFunc(form, strings.ToLower))
	}
	return forms
}

var encoded = regexp.MustCompile("%[0-9A-F]{2}")

// escapeJSON writes more characters of a quoted text as \u…: some, and those beyond ASCII.
func escapeJSON(quoted, some string, ascii bool, digits string) string {
	if strings.Contains(some, `"`) {
		quoted = strings.ReplaceAll(quoted, `\"`, `"`) // to be escaped in the other way
	}
	var b strings.Builder
	for _, r := range quoted {
		if !strings.ContainsRune(some, r) && (r < utf8.RuneSelf || !ascii) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u`+digits, unit)
		}
	}
	return b.String()
}

// minCredential is how short a credential may be that is looked for in a body. A shorter one
// may be there by chance, and a file must not be damaged by that.
const minCredential = 12

// credentialsIn returns the credentials of a request, nil if it has none. What they are
// is known to the caller, and may be in a reply; it must not be on disk.
func credentialsIn(header nethttp.Header) *secrets {
	var found *secrets
	for name, values := range header {
		if !isCredential(name) {
			continue
		}
		for _, value := range values {
			for _, secret := range append(credential.Parts(value), value) {
				if len(secret) < minCredential {
					continue
				}
				if found == nil {
					found = new(secrets)
				}
				found.add([]byte(secret))
			}
		}
	}
	return found
}

// hide returns a text without the secrets.
func (s *secrets) hide(text string) string {
	if s == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// hideError returns an error without the secrets in its texts.
func (s *secrets) hideError(e *message.Error) *message.Error {
	if s == nil || e == nil {
		return e
	}
	out := *e
	out.Message, out.Cause = s.hide(e.Message), s.hideError(e.Cause)
	return &out
}

// reader returns a reader of the same bytes without the secrets, also those that come in
// several pieces.
func (s *secrets) reader(r io.Reader) io.Reader {
	if s == nil {
		return r
	}
	h := &hidingReader{src: r}
	for _, form := range s.forms {
		h.forms = append(h.forms, []byte(form))
	}
	return h
}

const hidingChunk = 16 << 10

// A hidingReader holds back as many bytes as the beginning of a secret may have, until it
// knows how they go on.
type hidingReader struct {
	forms [][]byte // the longest first
	src   io.Reader
	buf   []byte // what is read and not decided
	out   []byte // what is decided
	given int    // how much of out is given
	next  []int  // where in buf each of the forms is found next
	err   error  // of src
}

func (h *hidingReader) Read(p []byte) (int, error) {
	for h.given == len(h.out) {
		if h.err != nil && len(h.buf) == 0 {
			return 0, h.err
		}
		h.fill()
	}
	n := copy(p, h.out[h.given:])
	h.given += n
	return n, nil
}

// fill reads once, and decides about all bytes at which no secret can begin that is not
// seen whole.
func (h *hidingReader) fill() {
	if h.err == nil {
		start := len(h.buf)
		h.buf = slices.Grow(h.buf, hidingChunk)
		var n int
		n, h.err = h.src.Read(h.buf[start : start+hidingChunk])
		h.buf = h.buf[:start+n]
	}
	decided := len(h.buf)
	if h.err == nil {
		decided = max(0, len(h.buf)-len(h.forms[0])+1)
	}
	h.out, h.given = h.out[:0], 0
	h.next = slices.Grow(h.next[:0], len(h.forms))[:len(h.forms)]
	for i := range h.next {
		h.next[i] = h.find(i, 0)
	}
	at := 0
	for at < decided {
		begin, end := h.first(at)
		if begin >= decided {
			h.out = append(h.out, h.buf[at:decided]...)
			at = decided
			break
		}
		h.out = append(append(h.out, h.buf[at:begin]...), hidden...)
		at = end
	}
	h.buf = h.buf[:copy(h.buf, h.buf[at:])]
}

// first returns where the first secret at or behind an offset begins and ends, the longest
// of those that begin there.
func (h *hidingReader) first(at int) (begin, end int) {
	begin = len(h.buf)
	for i, form := range h.forms {
		if h.next[i] < at {
			h.next[i] = h.find(i, at)
		}
		if h.next[i] < begin {
			begin, end = h.next[i], h.next[i]+len(form)
		}
	}
	return begin, end
}

// find returns where a form next begins, or the end if it does not.
func (h *hidingReader) find(form, at int) int {
	if i := bytes.Index(h.buf[at:], h.forms[form]); i >= 0 {
		return at + i
	}
	return len(h.buf)
}
