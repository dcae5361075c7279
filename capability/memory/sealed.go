package memory

import (
	"encoding/base64"
	"strings"

	"kernos/internal/jsonscan"
)

// sealedPrefix begins every sealed string.
const sealedPrefix = "pwenc:v1:"

// Sizes of the parts of a sealed string, in bytes.
const (
	nonceSize = 12
	tagSize   = 16
)

// sealedFault says what keeps a text from being a sealed string, or returns "". It looks
// at the form only: who has no key can't tell whether it opens. A text without the prefix
// is plain.
func sealedFault(text string) (fault string, plain bool) {
	body, ok := strings.CutPrefix(text, sealedPrefix)
	if !ok {
		return "it has no prefix " + sealedPrefix, true
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || strings.ContainsAny(body, "\r\n") { // which the decoder would skip
		return "what follows the prefix is not base64url without padding", false
	}
	var scan jsonscan.Scanner
	if scan.Text(data) != nil || data[jsonscan.Space(data, 0)] != '{' {
		return "what is encoded is not a JSON object", false
	}
	missing := map[string]bool{"v": true, "kid": true, "alg": true, "nonce": true, "ct": true}
	jsonscan.Members(data, 0, func(token, value []byte) bool {
		name := jsonscan.Unquote(token)
		fault = memberFault(name, value)
		delete(missing, name)
		return fault == ""
	})
	if fault != "" {
		return fault, false
	}
	for _, name := range []string{"v", "kid", "alg", "nonce", "ct"} {
		if missing[name] {
			return name + " is missing", false
		}
	}
	return "", false
}

// memberFault checks one member. It quotes nothing: what is not sealed may be a secret.
func memberFault(name string, value []byte) string {
	text, isString := "", value[0] == '"'
	if isString {
		text = jsonscan.Unquote(value)
	}
	switch name {
	case "v":
		if string(value) != "1" {
			return "v is not 1"
		}
	case "kid":
		if text == "" {
			return "kid is not a string that names a key"
		}
	case "alg":
		if text != "A256GCM" {
			return "alg is not A256GCM"
		}
	case "nonce":
		if n, ok := decodedLen(text); !ok || n != nonceSize {
			return "nonce is not 12 bytes in base64url"
		}
	case "ct":
		if n, ok := decodedLen(text); !ok || n < tagSize {
			return "ct is not base64url with a tag of 16 bytes"
		}
	case "aad":
		if !isString {
			return "aad is not a string"
		}
	case "ts":
		if !isString && value[0] != '-' && (value[0] < '0' || value[0] > '9') {
			return "ts is neither a number nor a string"
		}
	default:
		return "it has a member that a sealed string has not"
	}
	return ""
}

func decodedLen(text string) (int, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return 0, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return len(data), err == nil
}
