package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
)

const (
	// MinValue is how many bytes a secret must have to be looked for. A shorter one may
	// occur by chance.
	MinValue = 4

	// maxForms is how many forms of the secrets of a call are looked for. If a call has more,
	// everything that it sends is hidden.
	maxForms = 256
)

// Values are secrets that are known: what must not be repeated where others may read it. The
// zero value and nil hide nothing. A value that is complete is safe for concurrent use.
type Values struct {
	forms    []string // the longest first
	replacer *strings.Replacer
	tooMany  bool // to look for: everything is hidden
}

// Taken returns the secrets that a redaction has taken out of JSON data, and older ones, in
// the forms in which they may be repeated. It returns nil if there are none.
func Taken(was, is []byte, older *Values) *Values {
	v := new(Values)
	if older != nil {
		v.forms, v.tooMany = slices.Clone(older.forms), older.tooMany
	}
	compareJSON(was, is, func(plain string) {
		if v.tooMany = v.tooMany || len(v.forms) > maxForms; v.tooMany {
			return
		}
		quoted := jsonscan.AppendQuoted(nil, plain)
		v.add(plain, string(quoted[1:len(quoted)-1]), url.QueryEscape(plain), url.PathEscape(plain))
	})
	return v.complete()
}

// TakenFromRequest is [Taken] for what was sent to a web server, whose answer may hold it in
// all forms in which servers write texts. Secrets of fewer than least bytes are left alone.
func TakenFromRequest(was, is []byte, least int) *Values {
	v := new(Values)
	compareJSON(was, is, func(plain string) {
		if len(plain) >= least {
			v.add(serverForms(plain)...)
		}
	})
	return v.complete()
}

// Opened returns secrets that were sealed, in all forms in which servers write texts.
func Opened(secrets []string) *Values {
	v := new(Values)
	for _, plain := range secrets {
		v.add(serverForms(plain)...)
	}
	return v.complete()
}

// Sent returns secrets that a server was given, whole and in parts, in all forms in which servers write texts. Those of fewer
// than least bytes are left alone.
func Sent(secrets []string, least int) *Values {
	v := new(Values)
	for _, text := range secrets {
		eachPart(text, func(plain string) {
			if len(plain) >= least {
				v.add(serverForms(plain)...)
			}
		})
	}
	return v.complete()
}

func (v *Values) add(forms ...string) {
	for _, form := range forms {
		if len(form) >= MinValue && !slices.Contains(v.forms, form) {
			v.forms = append(v.forms, form)
		}
	}
}

func (v *Values) complete() *Values {
	if len(v.forms) == 0 {
		return nil
	}
	slices.SortStableFunc(v.forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range v.forms {
		pairs = append(pairs, form, Redacted)
	}
	v.replacer = strings.NewReplacer(pairs...)
	return v
}

// Hide returns a text without the secrets.
func (v *Values) Hide(text string) string {
	switch {
	case v == nil || v.replacer == nil || text == "":
		return text
	case v.tooMany:
		return Redacted
	}
	return v.replacer.Replace(text)
}

// HideJSON returns data without the secrets, and whether there were any.
func (v *Values) HideJSON(data []byte) ([]byte, bool) {
	if v == nil || v.replacer == nil || len(data) == 0 || string(data) == RedactedJSON {
		return data, false
	}
	if v.tooMany || !jsonscan.Valid(data) {
		return []byte(RedactedJSON), true
	}
	w := jsonscan.Rewrite(data)
	for i := 0; i < len(data); {
		start := i
		switch c := data[i]; {
		case c == '"':
			i = jsonscan.Skip(data, start)
			text := jsonscan.Unquote(data[start:i])
			if hidden := v.replacer.Replace(text); hidden != text {
				w.Replace(start, i, string(jsonscan.AppendQuoted(nil, hidden)))
			}
		case c == '-' || isDigit(c):
			i = jsonscan.Skip(data, start)
			if slices.Contains(v.forms, string(data[start:i])) {
				w.Replace(start, i, RedactedJSON)
			}
		default:
			i++
		}
	}
	out, changed := w.Result()
	if changed && !jsonscan.Valid(out) { // two names are the same now
		out = []byte(RedactedJSON)
	}
	return out, changed
}

// compare calls found for each secret, and for each part of it that may stand alone, which was
// in a value and is not in what a redaction has left of it.
func compare(was, is any, found func(plain string)) {
	switch was := was.(type) {
	case map[string]any:
		left, _ := is.(map[string]any)
		for name, value := range was {
			compare(value, left[name], found)
		}
	case []any:
		left, _ := is.([]any)
		for i, value := range was {
			var kept any
			if i < len(left) {
				kept = left[i]
			}
			compare(value, kept, found)
		}
	case string:
		if kept, ok := is.(string); ok {
			compareTexts(was, kept, found)
		} else {
			eachPart(was, found)
		}
	case json.Number:
		if is != any(was) {
			eachPart(string(was), found)
		}
	}
}

// compareJSON is compare for texts that are JSON.
func compareJSON(was, is []byte, found func(plain string)) {
	before, _ := jsonvalue.Decode(was)
	after, _ := jsonvalue.Decode(is)
	compare(before, after, found)
}

// compareTexts finds what stands in a text where the other one has a mark that something was.
func compareTexts(was, is string, found func(string)) {
	if was == is {
		return
	}
	if opensJSON([]byte(was)) && jsonscan.Valid([]byte(was)) && opensJSON([]byte(is)) && jsonscan.Valid([]byte(is)) {
		compareJSON([]byte(was), []byte(is), found)
		return
	}
	kept := strings.Split(is, Redacted)
	last := len(kept) - 1
	rest, aligned := strings.CutPrefix(was, kept[0])
	if aligned && last > 0 {
		rest, aligned = strings.CutSuffix(rest, kept[last])
	}
	var all []string
	for i := 1; aligned && i < last; i++ {
		var text string
		text, rest, aligned = strings.Cut(rest, kept[i])
		all = append(all, text)
	}
	all = append(all, rest)
	if !aligned || last == 0 { // the value was written anew
		all = []string{was}
	}
	for _, text := range all {
		eachPart(text, found)
	}
}

// eachPart calls found for a secret, for what of it may stand alone, and for its decoded form if
// it was written in a URL.
func eachPart(text string, found func(string)) {
	for _, part := range parts(text) {
		found(strings.TrimSpace(part))
	}
	if plain, err := url.QueryUnescape(text); err == nil && plain != text {
		found(strings.TrimSpace(plain))
	}
	found(strings.TrimSpace(text))
}

// serverForms lists how servers write a secret: as it is, and as JSON, URLs, HTML, base64 and
// hexadecimal digits. Other forms are not looked for. Blanks around a secret are not sent, so
// they do not come back.
func serverForms(text string) []string {
	text = strings.Trim(text, " \t")
	plain := []byte(text)
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
		forms = append(forms, form, encoded().ReplaceAllStringFunc(form, strings.ToLower))
	}
	return forms
}

var encoded = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("%[0-9A-F]{2}") })

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
