package kernel

import (
	"bytes"

	"kernos/internal/jsonscan"
)

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

// hasHeaderLine reports whether a line of text is a header that carries credentials, as in
// "Authorization: Bearer x".
func hasHeaderLine(text []byte) bool {
	if bytes.IndexByte(text, ':') < 0 {
		return false
	}
	for line := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if name, _, ok := bytes.Cut(line, []byte(":")); ok && isSecretHeader(bytes.TrimSpace(name)) {
			return true
		}
	}
	return false
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
