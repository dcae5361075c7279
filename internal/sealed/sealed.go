// Package sealed is the format of sealed strings: a secret in a form that may be kept and
// shown.
//
//	pwenc:v1:eyJ2IjoxLCJraWQiOiJzc2gtZnA6U0hBMjU2Oi…
//
// Behind the prefix stands base64url without padding, of a JSON object:
//
//	{"v":1,"kid":"ssh-fp:SHA256:…","alg":"A256GCM","nonce":"…","ct":"…","aad":"…","ts":…}
//
// A secret that is for certain hosts or syscalls only, its [Destination], has version 2:
//
//	pwenc:v2:eyJ2IjoyLCJraWQi…
//	{"v":2,"kid":"…","alg":"A256GCM","for":["api.example.com"],"nonce":"…","ct":"…","aad":"…"}
//
// Its for can be read, and neither changed nor taken away: it is authenticated with the
// ciphertext, and strings of version 2 have another key than those of version 1.
//
// [Parse] reads one, and [Cipher] makes and opens them with a key. A [Kid] names the key.
// Nothing here knows where keys come from.
package sealed

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
)

// algorithm is the only one of this version: AES-256 in Galois/counter mode.
const algorithm = "A256GCM"

// Sizes of the parts of a sealed string, in bytes.
const (
	nonceSize = 12
	tagSize   = 16
)

// encoding is base64url as the format wants it: no padding, no stray bits at the end.
var encoding = base64.RawURLEncoding.Strict()

// A Box is what a sealed string holds.
type Box struct {
	Kid        string // names the key; see [ParseKid]
	Nonce      []byte
	Ciphertext []byte // ends with the tag
	AAD        string // additional authenticated data, as it stands in the text
	For        Destination
}

// members are those of a sealed string; aad and ts may be left out, and for is in version 2.
var members = []string{"v", "kid", "alg", "nonce", "ct", "aad", "ts", "for"}

const atV, atKid, atAlg, atNonce, atCt, atAAD, atTs, atFor = 0, 1, 2, 3, 4, 5, 6, 7

// Parse reads a sealed string. It is strict, and looks at the form only: without the key
// it isn't known whether the string opens. The error quotes nothing of the text: what is not sealed
// may be a secret.
func Parse(text string) (Box, error) {
	body, ok := strings.CutPrefix(text, secret.SealedPrefix)
	bound := false
	if !ok {
		body, bound = strings.CutPrefix(text, secret.BoundPrefix)
	}
	if !ok && !bound {
		return Box{}, fmt.Errorf("it has no prefix %s", secret.SealedPrefix)
	}
	data, ok := decode([]byte(body))
	if !ok {
		return Box{}, errors.New("what follows the prefix is not base64url without padding")
	}
	var scan jsonscan.Scanner
	if scan.Text(data) != nil || data[jsonscan.Space(data, 0)] != '{' {
		return Box{}, errors.New("what is encoded is not a JSON object")
	}
	return parseMembers(data, bound)
}

func parseMembers(data []byte, bound bool) (box Box, err error) {
	var values [8][]byte // values of members
	jsonscan.Members(data, 0, func(token, value []byte) bool {
		name := jsonscan.Content(token)
		if i := slices.IndexFunc(members, func(known string) bool { return known == string(name) }); i >= 0 && (i != atFor || bound) {
			values[i] = value
		} else {
			err = errors.New("it has a member that a sealed string has not")
		}
		return err == nil
	})
	var texts [8][]byte // decoded values of members that are strings
	for i, value := range values {
		switch {
		case value == nil && (i <= atCt || i == atFor && bound) && err == nil:
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
	version := "1"
	if bound {
		version = "2"
		if box.For, err = parseDestination(values[atFor]); err != nil {
			return Box{}, err
		}
	}
	switch ts := values[atTs]; {
	case string(values[atV]) != version:
		return box, errors.New("v is not " + version)
	case len(texts[atKid]) == 0:
		return box, errors.New("kid is not a string that names a key")
	case string(texts[atAlg]) != algorithm:
		return box, errors.New("alg is not " + algorithm)
	case !nonceOK || len(nonce) != nonceSize:
		return box, errors.New("nonce is not 12 bytes in base64url")
	case !ciphertextOK || len(ciphertext) < tagSize:
		return box, errors.New("ct is not base64url with a tag of 16 bytes")
	case values[atAAD] != nil && values[atAAD][0] != '"':
		return box, errors.New("aad is not a string")
	case ts != nil && !bytes.ContainsAny(ts[:1], `"-0123456789`): // ts is not authenticated, so it is only checked
		return box, errors.New("ts is neither a number nor a string")
	}
	return Box{Kid: string(texts[atKid]), Nonce: nonce, Ciphertext: ciphertext, AAD: string(texts[atAAD]), For: box.For}, nil
}

func parseDestination(list []byte) (d Destination, err error) {
	if list[0] == '[' {
		jsonscan.Elements(list, 0, func(value []byte) bool {
			if value[0] != '"' {
				d = nil
				return false
			}
			d = append(d, jsonscan.Unquote(value))
			return true
		})
	}
	if len(d) == 0 || d.Check() != nil {
		return nil, errors.New("for is not a list of hosts and syscalls")
	}
	return d, nil
}

// String writes the sealed string.
func (b *Box) String() string {
	prefix, version := secret.SealedPrefix, `{"v":1,"kid":`
	if len(b.For) > 0 {
		prefix, version = secret.BoundPrefix, `{"v":2,"kid":`
	}
	text := append(make([]byte, 0, 256+len(b.AAD)+2*len(b.Ciphertext)), version...)
	text = jsonscan.AppendQuoted(text, b.Kid)
	text = append(text, `,"alg":"`+algorithm+`"`...)
	if len(b.For) > 0 {
		text = b.For.appendJSON(append(text, `,"for":`...))
	}
	text = encoding.AppendEncode(append(text, `,"nonce":"`...), b.Nonce)
	text = append(encoding.AppendEncode(append(text, `","ct":"`...), b.Ciphertext), '"')
	if b.AAD != "" {
		text = jsonscan.AppendQuoted(append(text, `,"aad":`...), b.AAD)
	}
	return string(encoding.AppendEncode([]byte(prefix), append(text, '}')))
}

func decode(text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 { // the decoder would skip line breaks
		return nil, false
	}
	data := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(data, text)
	return data[:n], err == nil
}
