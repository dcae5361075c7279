// Package sealed is the format of sealed strings: a secret in a form that may be kept and
// shown.
//
//	pwenc:v1:eyJ2IjoxLCJraWQiOiJzc2gtZnA6U0hBMjU2Oi…
//
// Behind the prefix stands base64url without padding, of a JSON object:
//
//	{"v":1,"kid":"ssh-fp:SHA256:…","alg":"A256GCM","nonce":"…","ct":"…","aad":"…","ts":…}
//
// [Parse] reads one, and [Cipher] makes and opens them with a key. A [Kid] names the key.
// Nothing here knows where keys come from.
package sealed

import (
	"bytes"
	"encoding/base64"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
)

// Prefix begins every sealed string.
const Prefix = secret.SealedPrefix

// algorithm is the only one of this version: AES-256 in Galois/counter mode.
const algorithm = "A256GCM"

// Sizes of the parts of a sealed string, in bytes.
const (
	NonceSize = 12
	TagSize   = 16
)

// encoding is base64url as the format wants it: no padding, no stray bits at the end.
var encoding = base64.RawURLEncoding.Strict()

// A Box is what a sealed string holds.
type Box struct {
	Kid        string // who has the key; see [ParseKid]
	Nonce      []byte
	Ciphertext []byte // with the tag
	AAD        string // what was authenticated with it, as it stands
}

// A Fault says why a text isn't a sealed string. Its text quotes nothing of it: what is not
// sealed may be a secret.
type Fault struct {
	Reason string
	Plain  bool // the text does not even have the prefix
}

func (f *Fault) Error() string { return f.Reason }

// Parse reads a sealed string. It is strict, and looks at the form only: who has no key
// can't tell whether the string opens. The error is a *Fault.
func Parse(text string) (Box, error) {
	var box Box
	body, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return box, &Fault{Reason: "it has no prefix " + Prefix, Plain: true}
	}
	data, ok := decode([]byte(body))
	if !ok {
		return box, &Fault{Reason: "what follows the prefix is not base64url without padding"}
	}
	var scan jsonscan.Scanner
	if scan.Text(data) != nil || data[jsonscan.Space(data, 0)] != '{' {
		return box, &Fault{Reason: "what is encoded is not a JSON object"}
	}
	var seen members
	fault := ""
	jsonscan.Members(data, 0, func(token, value []byte) bool {
		fault = box.member(jsonscan.Content(token), value, &seen)
		return fault == ""
	})
	if fault == "" {
		fault = seen.missing()
	}
	if fault != "" {
		return Box{}, &Fault{Reason: fault}
	}
	return box, nil
}

// members are those that must be there.
type members struct{ v, kid, alg, nonce, ct bool }

func (m *members) missing() string {
	for _, member := range []struct {
		name string
		seen bool
	}{{"v", m.v}, {"kid", m.kid}, {"alg", m.alg}, {"nonce", m.nonce}, {"ct", m.ct}} {
		if !member.seen {
			return member.name + " is missing"
		}
	}
	return ""
}

// member takes one member, or says what is wrong with it.
func (b *Box) member(name, value []byte, seen *members) string {
	var text []byte
	isString := value[0] == '"'
	if isString {
		text = jsonscan.Content(value)
	}
	switch string(name) {
	case "v":
		if seen.v = true; string(value) != "1" {
			return "v is not 1"
		}
	case "kid":
		if seen.kid = true; len(text) == 0 {
			return "kid is not a string that names a key"
		}
		b.Kid = string(text)
	case "alg":
		if seen.alg = true; string(text) != algorithm {
			return "alg is not " + algorithm
		}
	case "nonce":
		seen.nonce = true
		nonce, ok := decode(text)
		if !ok || len(nonce) != NonceSize {
			return "nonce is not 12 bytes in base64url"
		}
		b.Nonce = nonce
	case "ct":
		seen.ct = true
		ciphertext, ok := decode(text)
		if !ok || len(ciphertext) < TagSize {
			return "ct is not base64url with a tag of 16 bytes"
		}
		b.Ciphertext = ciphertext
	case "aad":
		if !isString {
			return "aad is not a string"
		}
		b.AAD = string(text)
	case "ts": // it is not authenticated, so it is not used
		if !isString && value[0] != '-' && (value[0] < '0' || value[0] > '9') {
			return "ts is neither a number nor a string"
		}
	default:
		return "it has a member that a sealed string has not"
	}
	return ""
}

// String writes the sealed string.
func (b *Box) String() string {
	const around = 128 // all that is not counted
	text := make([]byte, 0, around+len(b.Kid)+len(b.AAD)+encoding.EncodedLen(len(b.Ciphertext)))
	text = append(text, `{"v":1,"kid":`...)
	text = jsonscan.AppendQuoted(text, b.Kid)
	text = append(text, `,"alg":"`+algorithm+`","nonce":"`...)
	text = encoding.AppendEncode(text, b.Nonce)
	text = append(text, `","ct":"`...)
	text = encoding.AppendEncode(text, b.Ciphertext)
	text = append(text, '"')
	if b.AAD != "" {
		text = jsonscan.AppendQuoted(append(text, `,"aad":`...), b.AAD)
	}
	text = append(text, '}')
	out := make([]byte, 0, len(Prefix)+encoding.EncodedLen(len(text)))
	return string(encoding.AppendEncode(append(out, Prefix...), text))
}

func decode(text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 { // which the decoder would skip
		return nil, false
	}
	data := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(data, text)
	return data[:n], err == nil
}
