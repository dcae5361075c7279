package secret

import (
	"encoding/base64"
	"slices"
	"strings"
)

// schemes are those of Authorization, and what programs use as such, in lower case.
var schemes = []string{
	"apikey", "api-key", "aws4-hmac-sha256", "basic", "bearer", "digest", "dpop", "gnap", "hoba", "key", "mutual",
	"negotiate", "ntlm", "oauth", "privatetoken", "scram-sha-1", "scram-sha-256", "token", "vapid",
}

// minParameter is how long the value of a parameter must be to be taken for a secret: lang=en
// isn't one, and taking en out of everything would leave nothing.
const minParameter = 8

// parts returns what may be secret on its own in the value of a header: what follows the
// scheme, the password in Basic credentials, and the long values among parameters and
// cookies. The whole value is not among them. A server that is sent "Bearer abc" may send
// back "abc".
func parts(value string) []string {
	var found []string
	scheme, rest, ok := strings.Cut(strings.TrimSpace(value), " ")
	if ok && slices.Contains(schemes, strings.ToLower(scheme)) {
		rest = strings.TrimSpace(rest)
		found = append(found, rest)
		if strings.EqualFold(scheme, "basic") {
			found = append(found, password(rest)...)
		}
		value = rest
	}
	for parameter := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ';' || r == ',' }) {
		name, secret, ok := strings.Cut(parameter, "=")
		secret = strings.Trim(secret, " \t\"")
		if ok && len(secret) >= minParameter && isToken(strings.TrimSpace(name)) {
			found = append(found, secret)
		}
	}
	return found
}

// password returns what Basic credentials hold: user and password, and the password alone.
func password(encoded string) []string {
	encoded = strings.TrimRight(encoded, "=")
	plain, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		plain, err = base64.RawURLEncoding.DecodeString(encoded)
	}
	_, secret, ok := strings.Cut(string(plain), ":")
	if err != nil || !ok {
		return nil
	}
	return []string{string(plain), secret}
}

// isToken reports whether a text may be the name of a cookie or a parameter.
func isToken(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return text != "" && strings.Trim(text, letters) == ""
}
