package kernel

import (
	"bytes"

	"kernos/internal/jsonscan"
)

// secretHeaders are the headers of HTTP that carry credentials, in lower case, without
// what programs put between words.
var secretHeaders = map[string]bool{
	"authorization": true, "proxyauthorization": true, "xauthorization": true, "httpauthorization": true,
	"cookie": true, "httpcookie": true, "cookie2": true, "setcookie": true, "setcookie2": true,
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

// hasHeaderLine reports whether a line of text is a header that carries credentials, as in
// "Authorization: Bearer x".
func hasHeaderLine(text []byte) bool {
	if bytes.IndexByte(text, ':') < 0 {
		return false
	}
	for line := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && isSecretHeader(bytes.TrimSpace(name)) && !isRedacted(value) {
			return true
		}
	}
	return false
}

// cutHeaders returns a text without the credentials that follow names of headers in it,
// wherever they stand (curl -H "Cookie: a=b", headers['Cookie'] = …, ("Cookie", "a=b")), and
// whether there were any. What follows a name goes to the end of its line, since nobody
// knows where in it the secret ends.
func cutHeaders(text []byte) (out []byte, found bool) {
	copied := 0
	for i := 0; i < len(text); i++ {
		if c := text[i]; c != ':' && c != '=' && c != ',' || !namesHeader(text, i) {
			continue
		}
		start, end := valueBehind(text, i+1)
		if !isRedacted(text[start:end]) {
			out = append(append(out, text[copied:start]...), redactedText...)
			copied, found = end, true
		}
		i = end - 1
	}
	if !found {
		return text, false
	}
	return append(out, text[copied:]...), true
}

// redactedText is [RedactedData] within a string.
const redactedText = "[redacted]"

// isRedacted reports whether there is nothing to take out of the value of a header.
func isRedacted(value []byte) bool {
	value = bytes.TrimSpace(value)
	return len(value) == 0 || string(value) == redactedText
}

// namesHeader reports whether the name of a header that carries credentials stands before
// text[i], a colon, an equals sign or a comma, which is one behind quotes only.
func namesHeader(text []byte, i int) bool {
	end := i
	quote := byte(0)
joint:
	for ; end > 0; end-- {
		switch c := text[end-1]; c {
		case '"', '\'', '`':
			quote = c
		case ' ', '\t', '\\', ']', ')':
		default:
			break joint
		}
	}
	switch lower(text, end-1) {
	case 'n', 'e', 'y', '2', '-' | 0x20, '_' | 0x20: // as they all end
	default:
		return false
	}
	start := end
	for {
		for start > 0 && isWord(text[start-1]) && end-start <= maxHeader {
			start--
		}
		if isSecretHeader(text[start:end]) {
			return text[i] != ',' || quote != 0 && start > 0 && text[start-1] == quote
		}
		if end-start > maxHeader || start < 2 || text[start-1] != ' ' || !isWord(text[start-2]) {
			return false
		}
		start-- // as in: api key
	}
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// valueBehind returns where the value of a header begins, at or behind text[i], and ends:
// with its line and those that are indented behind it, or with the text if it goes on in a
// way that can't be followed.
func valueBehind(text []byte, i int) (start, end int) {
	for start = i; start < len(text) && bytes.IndexByte([]byte(" \t\r\n"), text[start]) >= 0; start++ {
	}
	end = lineEnd(text, start)
	if start < end && opens(text[start:end]) {
		return start, len(text)
	}
	for {
		next := end
		if next < len(text) && text[next] == '\r' {
			next++
		}
		if next < len(text) && text[next] == '\n' {
			next++
		}
		if next == end || next == len(text) || text[next] != ' ' && text[next] != '\t' {
			return start, end
		}
		end = lineEnd(text, next)
	}
}

func lineEnd(text []byte, i int) int {
	if n := bytes.IndexAny(text[i:], "\r\n"); n >= 0 {
		return i + n
	}
	return len(text)
}

// opens reports whether a line begins with a bracket or a quote that it does not close.
func opens(line []byte) bool {
	closing := line[0]
	switch line[0] {
	case '[', '{':
		closing = line[0] + 2
	case '(':
		closing = ')'
	case '"', '\'', '`':
	default:
		return false
	}
	return bytes.IndexByte(line[1:], closing) < 0
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
	for _, n := range []string{"name", "key", "header", "field", "n", "k"} {
		if bytes.EqualFold(name, []byte(n)) {
			return true
		}
	}
	return false
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
