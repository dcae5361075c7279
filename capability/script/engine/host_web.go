package engine

import (
	"crypto"
	"crypto/rand"
	_ "crypto/sha1" // registered for crypto.Hash
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/json"
	"unicode/utf8"

	"github.com/nlnwa/whatwg-url/url"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// maxURL is how many bytes a URL may have.
const maxURL = 64 << 10

// hostWeb runs the host functions that need no call: they compute. A nil result is undefined.
func (v *vm) hostWeb(name string, args arguments) (result value, ok bool) {
	switch name {
	case "randomBytes":
		b := make([]byte, min(max(int(args.number(0)), 0), 1<<16))
		_, _ = rand.Read(b) // rand.Read never fails
		return v.buffer(b), true
	case "digest":
		hash, known := map[string]crypto.Hash{"SHA-1": crypto.SHA1, "SHA-256": crypto.SHA256, "SHA-384": crypto.SHA384, "SHA-512": crypto.SHA512}[args.text(0)]
		if !known {
			return 0, true
		}
		h := hash.New()
		h.Write(args.bytes(1))
		return v.buffer(h.Sum(nil)), true
	case "encode":
		return v.buffer(v.read(args.value(0))), true
	case "decode":
		label := encodings[args.text(1)]
		if args.text(0) == "label" {
			return v.string([]byte(label)), true
		}
		text, ok := decode(label, args.bytes(4), args.truth(2), args.truth(3))
		if !ok {
			return 0, true
		}
		return v.string(text), true
	case "parseURL":
		return v.string(parseURL(args.text(0), args.text(1))), true
	case "changeURL":
		return v.string(changeURL(args.text(0), args.text(1), args.text(2))), true
	}
	return 0, false
}

// encodings are the labels that TextDecoder knows.
var encodings = map[string]string{
	"utf-8": "utf-8", "utf8": "utf-8", "utf-16le": "utf-16le", "utf-16": "utf-16le", "utf-16be": "utf-16be",
	"windows-1252": "windows-1252", "latin1": "windows-1252", "iso-8859-1": "windows-1252", "ascii": "windows-1252", "us-ascii": "windows-1252",
}

// decode makes UTF-8 of data; it fails if fatal is set and the data isn't of that encoding.
func decode(label string, data []byte, fatal, keepMark bool) ([]byte, bool) {
	policy := unicode.IgnoreBOM
	if !keepMark {
		policy = unicode.UseBOM
	}
	var e encoding.Encoding
	switch label {
	case "utf-16le":
		e = unicode.UTF16(unicode.LittleEndian, policy)
	case "utf-16be":
		e = unicode.UTF16(unicode.BigEndian, policy)
	case "windows-1252":
		e = charmap.Windows1252
	default:
		if e = unicode.UTF8; !keepMark {
			e = unicode.UTF8BOM
		}
		if fatal && !utf8.Valid(data) {
			return nil, false
		}
	}
	text, err := e.NewDecoder().Bytes(data)
	return text, err == nil
}

// A location is a URL in parts, as the class URL has them.
func location(u *url.Url) []byte {
	origin := "null"
	switch u.Scheme() {
	case "http", "https", "ws", "wss", "ftp":
		origin = u.Protocol() + "//" + u.Host()
	}
	b, _ := json.Marshal(map[string]string{
		"href": u.Href(false), "origin": origin, "protocol": u.Protocol(), "username": u.Username(), "password": u.Password(),
		"host": u.Host(), "hostname": u.Hostname(), "port": u.Port(), "pathname": u.Pathname(), "search": u.Search(), "hash": u.Hash(),
	})
	return b
}

// parseURL returns nothing if the text isn't a URL.
func parseURL(text, base string) []byte {
	if len(text)+len(base) > maxURL {
		return nil
	}
	var u *url.Url
	var err error
	if base == "" {
		u, err = url.Parse(text)
	} else {
		u, err = url.ParseRef(base, text)
	}
	if err != nil {
		return nil
	}
	return location(u)
}

// urlParts set the parts of a URL.
var urlParts = map[string]func(*url.Url, string){
	"protocol": (*url.Url).SetProtocol, "username": (*url.Url).SetUsername, "password": (*url.Url).SetPassword,
	"host": (*url.Url).SetHost, "hostname": (*url.Url).SetHostname, "port": (*url.Url).SetPort,
	"pathname": (*url.Url).SetPathname, "search": (*url.Url).SetSearch, "hash": (*url.Url).SetHash,
}

// changeURL sets one part. What isn't valid there changes nothing, except for href, which must be a URL.
func changeURL(href, part, value string) []byte {
	if part == "href" {
		return parseURL(value, "")
	}
	u, err := url.Parse(href)
	if err != nil || len(value) > maxURL {
		return nil
	}
	if set := urlParts[part]; set != nil {
		set(u, value)
	}
	return location(u)
}
