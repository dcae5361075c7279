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
	"slices"
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

// members are those of a sealed string; aad and ts may be left out.
var members = []string{"v", "kid", "alg", "nonce", "ct", "aad", "ts"}

// Parse reads a sealed string. It is strict, and looks at the form only: who has no key
// can't tell whether the string opens. The error is a *Fault.
func Parse(text string) (Box, error) {
	body, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return Box{}, &Fault{Reason: "it has no prefix " + Prefix, Plain: true}
	}
	data, ok := decode([]byte(body))
	if !ok {
		return Box{}, &Fault{Reason: "what follows the prefix is not base64url without padding"}
	}
	var scan jsonscan.Scanner
	if scan.Text(data) != nil || data[jsonscan.Space(data, 0)] != '{' {
		return Box{}, &Fault{Reason: "what is encoded is not a JSON object"}
	}
	box, fault := parseMembers(data)
	if fault != "" {
		return Box{}, &Fault{Reason: fault}
	}
	return box, nil
}

func parseMembers(data []byte) (box Box, fault string) {
	var values [7][]byte // of members
	jsonscan.Members(data, 0, func(token, value []byte) bool {
		name := jsonscan.Content(token)
		if i := slices.IndexFunc(members, func(known string) bool { return known == string(name) }); i >= 0 {
			values[i] = value
		} else {
			fault = "it has a member that a sealed string has not"
		}
		return fault == ""
	})
	var texts [7][]byte // of those that are strings
	for i, value := range values {
		switch {
		case value == nil && i < 5 && fault == "":
			fault = members[i] + " is missing"
		case value != nil && value[0] == '"':
			texts[i] = jsonscan.Content(value)
		}
	}
	if fault != "" {
		return box, fault
	}
	nonce, nonceOK := decode(texts[3])
	ciphertext, ciphertextOK := decode(texts[4])
	switch {
	case string(values[0]) != "1":
		return box, "v is not 1"
	case len(texts[1]) == 0:
		return box, "kid is not a string that names a key"
	case string(texts[2]) != algorithm:
		return box, "alg is not " + algorithm
	case !nonceOK || len(nonce) != NonceSize:
		return box, "nonce is not 12 bytes in base64url"
	case !ciphertextOK || len(ciphertext) < TagSize:
		return box, "ct is not base64url with a tag of 16 bytes"
	case values[5] != nil && values[5][0] != '"':
		return box, "aad is not a string"
	case values[6] != nil && !bytes.ContainsAny(values[6][:1], `"-0123456789`): // it is not authenticated, so it is not used
		return box, "ts is neither a number nor a string"
	}
	return Box{Kid: string(texts[1]), Nonce: nonce, Ciphertext: ciphertext, AAD: string(texts[5])}, ""
}

// String writes the sealed string.
func (b *Box) String() string {
	text := append(make([]byte, 0, 256+len(b.AAD)+2*len(b.Ciphertext)), `{"v":1,"kid":`...)
	text = jsonscan.AppendQuoted(text, b.Kid)
	text = encoding.AppendEncode(append(text, `,"alg":"`+algorithm+`","nonce":"`...), b.Nonce)
	text = append(encoding.AppendEncode(append(text, `","ct":"`...), b.Ciphertext), '"')
	if b.AAD != "" {
		text = jsonscan.AppendQuoted(append(text, `,"aad":`...), b.AAD)
	}
	return string(encoding.AppendEncode([]byte(Prefix), append(text, '}')))
}

func decode(text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 { // which the decoder would skip
		return nil, false
	}
	data := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(data, text)
	return data[:n], err == nil
}
