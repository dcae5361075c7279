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
	"errors"
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

// members are those of a sealed string; aad and ts may be left out.
var members = []string{"v", "kid", "alg", "nonce", "ct", "aad", "ts"}

const atV, atKid, atAlg, atNonce, atCt, atAAD, atTs = 0, 1, 2, 3, 4, 5, 6

// Parse reads a sealed string. It is strict, and looks at the form only: who has no key
// can't tell whether the string opens. The error quotes nothing of the text: what is not sealed
// may be a secret.
func Parse(text string) (Box, error) {
	body, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return Box{}, errors.New("it has no prefix " + Prefix)
	}
	data, ok := decode([]byte(body))
	if !ok {
		return Box{}, errors.New("what follows the prefix is not base64url without padding")
	}
	var scan jsonscan.Scanner
	if scan.Text(data) != nil || data[jsonscan.Space(data, 0)] != '{' {
		return Box{}, errors.New("what is encoded is not a JSON object")
	}
	return parseMembers(data)
}

func parseMembers(data []byte) (box Box, err error) {
	var values [7][]byte // of members
	jsonscan.Members(data, 0, func(token, value []byte) bool {
		name := jsonscan.Content(token)
		if i := slices.IndexFunc(members, func(known string) bool { return known == string(name) }); i >= 0 {
			values[i] = value
		} else {
			err = errors.New("it has a member that a sealed string has not")
		}
		return err == nil
	})
	var texts [7][]byte // of those that are strings
	for i, value := range values {
		switch {
		case value == nil && i <= atCt && err == nil:
			err = errors.New(members[i] + " is missing")
		case value != nil && value[0] == '"':
			texts[i] = jsonscan.Content(value)
		}
	}
	if err != nil {
		return box, err
	}
	nonce, nonceOK := decode(texts[atNonce])
	ciphertext, ciphertextOK := decode(texts[atCt])
	switch ts := values[atTs]; {
	case string(values[atV]) != "1":
		return box, errors.New("v is not 1")
	case len(texts[atKid]) == 0:
		return box, errors.New("kid is not a string that names a key")
	case string(texts[atAlg]) != algorithm:
		return box, errors.New("alg is not " + algorithm)
	case !nonceOK || len(nonce) != NonceSize:
		return box, errors.New("nonce is not 12 bytes in base64url")
	case !ciphertextOK || len(ciphertext) < TagSize:
		return box, errors.New("ct is not base64url with a tag of 16 bytes")
	case values[atAAD] != nil && values[atAAD][0] != '"':
		return box, errors.New("aad is not a string")
	case ts != nil && !bytes.ContainsAny(ts[:1], `"-0123456789`): // it is not authenticated, so it is not used
		return box, errors.New("ts is neither a number nor a string")
	}
	return Box{Kid: string(texts[atKid]), Nonce: nonce, Ciphertext: ciphertext, AAD: string(texts[atAAD])}, nil
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
