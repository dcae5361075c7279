// Package secret decides what a credential is, and takes credentials out of what is kept.
//
// [Named] decides by the name of a header, a parameter or a field: everything that hides
// credentials asks it. [Look] redacts JSON data by names, [URL] and [Form] the parts of a web
// request. [Values] are secrets that are known, and are hidden wherever they are repeated.
package secret

import "bytes"

// What stands in the place of a secret: within a text, and as a JSON value.
const (
	Redacted     = "[redacted]"
	RedactedJSON = `"` + Redacted + `"`
)

// SealedPrefix begins a string that is encrypted and may be kept. Package sealed has its form.
const SealedPrefix = "pwenc:v1:"

// A Place says where a name stands. A name that denotes a credential in one place also does in
// the places before it.
type Place uint8

// Places, from those where nearly every such name denotes a credential to those where few do.
const (
	Nowhere Place = iota
	Request       // a header or a URL parameter of a web request
	Body          // a field in the body of a web request
	Data          // a member of any data
	Text          // the middle of any text
)

// A noun ends the name of a credential, as token does in X-Vault-Token.
type noun struct {
	word      string
	alone     Place    // of the noun itself
	qualified Place    // of the noun after any other words
	sure      []string // words before the noun that make it a credential everywhere
	harmless  []string // words before the noun that make it no credential at all
}

// nouns has a longer word before one that ends it.
var nouns = []noun{
	{word: "authorization", alone: Text, qualified: Text},
	{word: "cookie", alone: Text, qualified: Text},
	{word: "password", alone: Data, qualified: Data},
	{word: "passwordconfirmation", alone: Data, qualified: Data},
	{word: "passwordhash", alone: Data, qualified: Data},
	{word: "passwd", alone: Data, qualified: Data},
	{word: "passphrase", alone: Data, qualified: Data},
	{word: "passcode", alone: Data, qualified: Data},
	{word: "pwd", alone: Body, qualified: Data},
	{word: "pass", alone: Body, sure: []string{"user", "db"}, harmless: []string{"by", "com", "tres", "sur", "under", "over"}},
	{word: "secret", alone: Data, qualified: Data},
	{word: "credential", alone: Body, qualified: Data},
	{word: "credentials", alone: Body, qualified: Data},
	{word: "jwt", alone: Data, qualified: Data},
	{word: "idtoken", alone: Text, qualified: Body},
	{word: "idtokenhint", alone: Body, qualified: Body},
	{word: "token", alone: Body, qualified: Body,
		sure:     sureTokens,
		harmless: []string{"page", "next", "continuation", "sync", "cursor", "resume", "start", "stop", "end", "eos", "bos", "pad", "unk", "sep", "mask", "cls", "special"}},
	{word: "key", alone: Request, qualified: Body,
		sure: sureKeys,
		harmless: []string{"idempotency", "sort", "primary", "foreign", "cache", "partition", "public", "surrogate", "routing", "object", "row", "hash", "range",
			"group", "dedup", "deduplication", "websocket", "natural", "index", "unique", "issue", "project", "parent", "item", "map", "translation", "any", "hot",
			"mon", "tur", "don", "hoc", "joc", "whis"}},
	{word: "session", alone: Request, qualified: Body},
	{word: "sessionid", alone: Body, qualified: Body},
	{word: "sessid", alone: Body, qualified: Body},
	{word: "sid", alone: Request, sure: []string{"connect"}, harmless: []string{"in", "out", "re", "be"}},
	{word: "auth", alone: Body, qualified: Body},
	{word: "authentication", alone: Request, qualified: Request},
	{word: "signature", alone: Request, qualified: Body},
	{word: "sig", alone: Request},
	{word: "bearer", alone: Body},
	{word: "otp", alone: Body},
	{word: "clientassertion", alone: Body, qualified: Body},
	{word: "assertion", alone: Body, sure: []string{"jwt"}},
	{word: "codeverifier", alone: Body, qualified: Body},
	{word: "samlresponse", alone: Body, qualified: Body},
	{word: "connectionstring", alone: Body, qualified: Body},
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

// Named reports whether a name denotes a credential in a place. Case does not matter, nor do
// dashes, underscores, dots and blanks between words, nor digits at the end.
func Named(name []byte, in Place) bool {
	var room [maxName]byte
	plain := fold(&room, name)
	if in > Request {
		return placeOf(name, plain) >= in
	}
	return placeOf(name, plain) >= in || likely(plain)
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
func placeOf(name, plain []byte) Place {
	if len(plain) < len("sid") {
		return Nowhere
	}
	for _, noun := range byLastLetter[plain[len(plain)-1]] {
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

var byLastLetter = func() (all [256][]*noun) {
	for i := range nouns {
		last := nouns[i].word[len(nouns[i].word)-1]
		all[last] = append(all[last], &nouns[i])
	}
	return all
}()

// likely reports whether a folded name is like those of headers and parameters that hold
// credentials.
func likely(plain []byte) bool {
	for _, stem := range stems {
		i := bytes.Index(plain, []byte(stem))
		if i >= 0 && !isAuthor(plain[i:]) && !isHarmless(plain) {
			return true
		}
	}
	return false
}

// isHarmless reports whether a folded name only looks like that of a credential, or ends with a
// noun after a word that makes it harmless.
func isHarmless(plain []byte) bool {
	if containsAny(plain, harmlessStems) {
		return true
	}
	for i := range nouns {
		if ends(plain, nouns[i].word) && endsAny(plain[:len(plain)-len(nouns[i].word)], nouns[i].harmless) {
			return true
		}
	}
	return false
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
	for _, word := range words {
		if ends(text, word) {
			return true
		}
	}
	return false
}

func containsAny(text []byte, words []string) bool {
	for _, word := range words {
		if bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

// MayHold reports whether data may have the name of a credential in it, for [Data] and beyond.
// Nearly all data have none. It looks for rare letters that stand in each of these names, and
// only then at the letters around them.
func MayHold(data []byte) bool {
	before := uint8(0)
	for i, c := range data {
		if before&follows[c] != 0 && inName(data, i-1) {
			return true
		}
		before = rare[c]
	}
	return false
}

// rare has a bit for each of the rare letters, and follows the bits of the letters before which
// it may stand in a name.
var (
	rare = [256]uint8{
		'z': 1, 'k': 2, 'p': 4, 'c': 8, 'j': 16, 'x': 32,
		'Z': 1, 'K': 2, 'P': 4, 'C': 8, 'J': 16, 'X': 32, '\\': 64,
	}
	follows = [256]uint8{
		'a': 1 | 4, 'i': 2, 'e': 2, 'w': 4 | 16, 'r': 8, 'u': 64,
		'A': 1 | 4, 'I': 2, 'E': 2, 'W': 4 | 16, 'R': 8,
		'-': 1 | 2 | 4 | 8 | 16 | 32, '_': 1 | 2 | 4 | 8 | 16 | 32, ' ': 1 | 2 | 4 | 8 | 16, '.': 1 | 2 | 4 | 8 | 16,
	}
)

// inName reports whether the letters around the rare one at data[i] are those of the name of a
// credential.
func inName(data []byte, i int) bool {
	switch data[i] | 0x20 {
	case 'z': // authorization
		return letterBefore(data, i) == 'i' && spells(data, i, "za")
	case 'k': // cookie, token, key
		switch letterBefore(data, i) {
		case 'o':
			return spells(data, i, "kie") || spells(data, i, "ken") && isSure(data, i, "to", sureTokens)
		case 0:
			return false
		}
		return spells(data, i, "key") && isSure(data, i, "", sureKeys)
	case 'p':
		return spells(data, i, "pass") || spells(data, i, "pwd")
	case 'c': // secret, credential
		return spells(data, i, "cret") || spells(data, i, "creden")
	case 'j':
		return spells(data, i, "jwt")
	case 'x':
		return isExtension(data[i:]) && (i == 0 || !isLetter(data[i-1]))
	}
	return true // an escape may be any letter
}

// isSure reports whether the letters before data[i] are the beginning of a noun after a word that
// makes it a credential in any data. Prose about tokens and keys has no such words.
func isSure(data []byte, i int, noun string, sure []string) bool {
	var room [maxName]byte
	plain := fold(&room, data[:i])
	if !ends(plain, noun) {
		return false
	}
	before := plain[:len(plain)-len(noun)]
	return endsAny(before, sure) || ends(before, "id")
}

// letterBefore returns the letter before data[i] in lower case, 0 if there is none. It passes
// over what programs put between words.
func letterBefore(data []byte, i int) byte {
	for i--; i >= 0 && isJoint(data[i]); i-- {
	}
	if i < 0 || !isLetter(data[i]) && !isDigit(data[i]) {
		return 0
	}
	return data[i] | 0x20
}

// spells reports whether a word, in lower case, stands at data[i] in any case, with anything
// between its letters that programs put between words.
func spells(data []byte, i int, word string) bool {
	for n := 0; n < len(word); i++ {
		switch {
		case i == len(data):
			return false
		case data[i]|0x20 == word[n]:
			n++
		case n == 0 || !isJoint(data[i]):
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
