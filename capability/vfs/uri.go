package vfs

import (
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	of "kernos/internal/uri"
	"kernos/message"
)

const scheme = "os://"

// maxURI is how many bytes a URI may have.
const maxURI = 4096

// Resolve makes a URI absolute, in the one form in which it is printed: os://a/b, without
// . and .., doubled or trailing slashes. A relative one starts where the base is: beside it,
// or below it if it ends with a slash; without a base, at the root. No number of .. leads
// above the root. An https URI stays as it is, and may be a base too.
//
// Names are taken as they are written: nothing is decoded. What a more lenient program
// could take for another path (backslashes, encoded dots and slashes, control characters)
// is refused. The error is a 422.
func (t *Tree) Resolve(uri, base string) (string, error) {
	if remote(base) && relative(uri) {
		return resolveRemote(uri, base)
	}
	if remote(uri) {
		return resolveRemote(uri, "")
	}
	p, err := parse(uri, base)
	if err != nil {
		return "", err
	}
	return scheme + p, nil
}

// parse returns the path that a URI means, without slashes around it: "" is the root.
func parse(uri, base string) (string, error) {
	p, absolute, err := split(uri)
	if err != nil {
		return "", err
	}
	if !absolute && base != "" {
		b, _, err := split(base)
		if err != nil {
			return "", message.Errorf(422, "The base can't be used: %w", err)
		}
		if !strings.HasSuffix(b, "/") {
			b = path.Dir("/" + b)
		}
		p = b + "/" + p
	}
	p = path.Clean("/" + p)[1:]
	if len(p) > maxURI-len(scheme) {
		return "", badURI(uri, "it has more than %d bytes", maxURI)
	}
	return p, nil
}

// split takes the path out of a URI, and reports whether it starts at the root.
func split(uri string) (p string, absolute bool, err error) {
	if uri == "" {
		return "", false, message.Errorf(422, "Invalid URI: it is empty; the root is os://")
	}
	if len(uri) > maxURI {
		return "", false, badURI(uri, "it has %d bytes, and %d are allowed", len(uri), maxURI)
	}
	if err := checkText(uri); err != nil {
		return "", false, err
	}
	s := of.Scheme(uri)
	switch {
	case s == "":
		return uri, uri[0] == '/', nil
	case !strings.EqualFold(s, "os"):
		return "", false, badURI(uri, "the scheme %s is not served here; use os://, or Http.Fetch for a server", message.Clip(s, 40))
	case !strings.HasPrefix(uri[len(s):], "://"):
		return "", false, badURI(uri, "write os:// before the path")
	}
	return uri[len(scheme):], true, nil
}

// checkText refuses what could be read as another path than it is.
func checkText(uri string) error {
	if !utf8.ValidString(uri) {
		return message.Errorf(422, "Invalid URI: it is not UTF-8")
	}
	for i, r := range uri {
		switch {
		case r < ' ', r >= 0x7F && r < 0xA0:
			return badURI(uri, "it has the control character U+%04X", r)
		case r == '\\':
			return badURI(uri, "it has a backslash; names are separated by /")
		case r == '%' && len(uri) > i+2:
			switch code := strings.ToLower(uri[i+1 : i+3]); code {
			case "2e", "2f", "5c", "00":
				return badURI(uri, "it has the encoded sign %%%s; nothing is decoded here, so write names as they are", code)
			}
		}
	}
	return nil
}

func badURI(uri, format string, args ...any) *message.Error {
	return message.Errorf(422, "Invalid URI %q: "+format, append([]any{message.Clip(uri, 200)}, args...)...)
}

func relative(uri string) bool { return uri != "" && of.Scheme(uri) == "" }

func remote(uri string) bool { return strings.EqualFold(of.Scheme(uri), "https") }

func resolveRemote(uri, base string) (string, error) {
	if len(uri) > maxURI || len(base) > maxURI {
		return "", badURI(uri, "it has more than %d bytes", maxURI)
	}
	if !utf8.ValidString(uri) {
		return "", message.Errorf(422, "Invalid URI: it is not UTF-8")
	}
	u, err := url.Parse(uri) // Parse takes no control characters
	if err == nil && base != "" {
		var b *url.URL
		if b, err = url.Parse(base); err == nil {
			u = b.ResolveReference(u)
		}
	}
	switch {
	case err != nil:
		return "", badURI(uri, "it can't be read as the address of a server")
	case u.Host == "":
		return "", badURI(uri, "it names no server; write https://host/path")
	case base == "":
		return uri, nil // the URI as it was declared
	}
	return u.String(), nil
}
