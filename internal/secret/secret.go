// Package secret decides what a credential is, and takes credentials out of what is kept.
//
// [Named] decides by the name of a header, a parameter or a field: everything that hides
// credentials asks it. [Strictness] redacts JSON data by names, [URL] and [Form] the parts of a web
// request. [Values] are secrets that are known, and are hidden wherever they are repeated.
package secret

import (
	"bytes"
	"slices"
	"strings"
)

// What stands in the place of a secret: within a text, and as a JSON value.
const (
	Redacted     = "[redacted]"
	RedactedJSON = `"` + Redacted + `"`
)

// SealedPrefix begins a string that is encrypted and may be kept. Package sealed has its form.
// BoundPrefix begins one that is for certain hosts or syscalls.
const (
	SealedPrefix = "pwenc:v1:"
	BoundPrefix  = "pwenc:v2:"
)

// IsSealed reports whether a text begins like a sealed string.
func IsSealed(text []byte) bool {
	return bytes.HasPrefix(text, []byte(SealedPrefix)) || bytes.HasPrefix(text, []byte(BoundPrefix))
}

// A Location is where a name stands. A name that denotes a credential in one place also does in
// the places before it.
type Location uint8

// Places, from those where nearly every such name denotes a credential to those where few do.
const (
	Nowhere Location = iota
	Request          // a header or a URL parameter of a web request
	Body             // a field in the body of a web request
	Data             // a member of any data
	Text             // the middle of any text
	Unnamed          // where no name denotes a credential
)

// A noun ends the name of a credential, as token does in X-Vault-Token.
type noun struct {
	word      string
	alone     Location // where the noun by itself is a credential
	qualified Location // where the noun after other words is one
	sure      []string // words before the noun that make it a credential everywhere
	harmless  []string // words before the noun that make it no credential at all
}

// nouns has a longer word before one that ends it.
var nouns = slices.Concat(
	all("authorization cookie", Text, Text),
	all("password passwordconfirmation passwordhash passwd passphrase passcode secret jwt", Data, Data),
	all("pwd credential credentials", Body, Data),
	all("idtoken", Text, Body),
	all("idtokenhint sessionid sessid auth clientassertion codeverifier samlresponse connectionstring", Body, Body),
	all("session signature", Request, Body),
	all("authentication", Request, Request),
	all("bearer otp", Body, Nowhere),
	all("sig", Request, Nowhere),
	[]noun{
		{word: "pass", alone: Body, sure: []string{"user", "db"}, harmless: []string{"by", "com", "tres", "sur", "under", "over"}},
		{word: "sid", alone: Request, sure: []string{"connect"}, harmless: []string{"in", "out", "re", "be"}},
		{word: "assertion", alone: Body, sure: []string{"jwt"}},
		{word: "token", alone: Body, qualified: Body,
			sure:     sureTokens,
			harmless: []string{"page", "next", "continuation", "sync", "cursor", "resume", "start", "stop", "end", "eos", "bos", "pad", "unk", "sep", "mask", "cls", "special"}},
		{word: "key", alone: Request, qualified: Body,
			sure: sureKeys,
			harmless: []string{"idempotency", "sort", "primary", "foreign", "cache", "partition", "public", "surrogate", "routing", "object", "row", "hash", "range",
				"group", "dedup", "deduplication", "websocket", "natural", "index", "unique", "issue", "project", "parent", "item", "map", "translation", "any", "hot",
				"mon", "tur", "don", "hoc", "joc", "whis"}},
	},
)

// all makes nouns of words that denote credentials in the same places.
func all(words string, alone, qualified Location) (nouns []noun) {
	for word := range strings.FieldsSeq(words) {
		nouns = append(nouns, noun{word: word, alone: alone, qualified: qualified})
	}
	return nouns
}

// Words before token and key that make them credentials everywhere.
var (
	sureTokens = []string{"access", "refresh", "auth", "api", "session", "security", "csrf", "xsrf", "bearer", "bot", "private", "personal", "vault",
		"github", "gitlab", "deploy", "login", "secret", "npm", "slack"}
	sureKeys = []string{"api", "access", "secret", "private", "auth", "subscription", "functions", "signing", "encryption", "master"}
)

// stems are in the names of headers and parameters that are likely to hold a credential, and
// harmlessStems are in names that only look like it.
var (
	stems         = []string{"auth", "cookie", "token", "key", "secret", "session", "passw", "credential", "signature"}
	harmlessStems = []string{"authority", "secretary", "keyword", "keyboard", "keys", "tokens", "tokeniz", "tokentype", "tokencount", "tokenlimit"}
)

// maxName is how many letters of a name are looked at, from its end.
const maxName = 64

// Marked reports whether a schema with these values of its keywords writeOnly and format means that what it
// describes is a secret.
func Marked(writeOnly bool, format string) bool { return writeOnly || format == "password" }

// MayBeMarked reports whether a text without escapes may hold a schema for which [Marked] is true.
func MayBeMarked(text []byte) bool {
	return bytes.Contains(text, []byte("writeOnly")) || bytes.Contains(text, []byte("password"))
}

// MayBeMarkedJSON is [MayBeMarked] for JSON, in which the keywords may be written with escapes.
func MayBeMarkedJSON(schema []byte) bool {
	return MayBeMarked(schema) || bytes.IndexByte(schema, '\\') >= 0
}

// Named reports whether a name denotes a credential in a place. Case does not matter, nor do
// dashes, underscores, dots and blanks between words, nor digits at the end.
func Named(name []byte, in Location) bool {
	var room [maxName]byte
	plain := fold(&room, name)
	return placeOf(name, plain) >= in || in <= Request && likely(plain)
}

// fold writes a name, or the end of a long one, in lower case without what stands between
// words, and without digits at the end.
func fold(room *[maxName]byte, name []byte) []byte {
	n := maxName
	for i := len(name) - 1; i >= 0 && n > 0; i-- {
		c := name[i]
		switch {
		case isJoint(c), isDigit(c) && n == maxName:
			continue
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		n--
		room[n] = c
	}
	return room[n:]
}

// placeOf returns the last place in which a name denotes a credential.
func placeOf(name, plain []byte) Location {
	for i := range nouns {
		noun := &nouns[i]
		if !ends(plain, noun.word) {
			continue
		}
		before := plain[:len(plain)-len(noun.word)]
		switch {
		case len(before) == 0:
			return noun.alone
		case endsAny(before, noun.harmless):
			return Nowhere
		case isExtension(name) || endsAny(before, noun.sure):
			return Text
		case noun.qualified > Nowhere:
			return noun.qualified
		}
	}
	return Nowhere
}

// likely reports whether a folded name is like those of headers and parameters that hold
// credentials.
func likely(plain []byte) bool {
	return slices.ContainsFunc(stems, func(stem string) bool {
		i := bytes.Index(plain, []byte(stem))
		return i >= 0 && !isAuthor(plain[i:]) && !isHarmless(plain)
	})
}

// isHarmless reports whether a folded name only looks like that of a credential, or ends with a
// noun after a word that makes it harmless.
func isHarmless(plain []byte) bool {
	return slices.ContainsFunc(harmlessStems, func(stem string) bool { return bytes.Contains(plain, []byte(stem)) }) ||
		slices.ContainsFunc(nouns, func(n noun) bool {
			return ends(plain, n.word) && endsAny(plain[:len(plain)-len(n.word)], n.harmless)
		})
}

// isExtension reports whether a name is that of a header which some vendor has added, as in
// X-My-Header and HTTP_X_MY_HEADER.
func isExtension(name []byte) bool {
	const cgi = len("HTTP_")
	if len(name) > cgi && bytes.EqualFold(name[:cgi-1], []byte("http")) && isJoint(name[cgi-1]) {
		name = name[cgi:]
	}
	return len(name) > 2 && name[0]|0x20 == 'x' && (name[1] == '-' || name[1] == '_')
}

// isAuthor reports whether a text begins with author and not with authorize or authorization.
func isAuthor(text []byte) bool {
	rest, ok := bytes.CutPrefix(text, []byte("author"))
	return ok && !bytes.HasPrefix(rest, []byte("iz")) && !bytes.HasPrefix(rest, []byte("is"))
}

// isJoint reports whether programs put a character between the words of a name.
func isJoint(c byte) bool { return c == '-' || c == '_' || c == ' ' || c == '.' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func ends(text []byte, with string) bool {
	return len(text) >= len(with) && string(text[len(text)-len(with):]) == with
}

func endsAny(text []byte, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return ends(text, word) })
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
