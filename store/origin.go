package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// An Origin is whose state a store keeps. It is fixed when a kernel starts, and two
// origins never see each other's state: each has a folder of its own.
type Origin string

// DefaultOrigin is the origin of a kernel whose options have none.
const DefaultOrigin Origin = "https://kernos.local/"

// ParseOrigin reads an origin: a URL as it is, or a plain name, which is lower-cased,
// with hyphens for blanks and underscores and without other signs: "My Agent" is
// https://my-agent.local/. An empty text is the DefaultOrigin.
func ParseOrigin(text string) (Origin, error) {
	if text == "" {
		return DefaultOrigin, nil
	}
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme == "" || u.Host == "":
			return "", fmt.Errorf("the origin %q is neither a URL with a host nor a plain name", text)
		case u.User != nil:
			return "", fmt.Errorf("the origin %q has a user name in it, which an origin may not", u.Redacted())
		}
		return Origin(text), nil
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r == '_' || unicode.IsSpace(r):
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return -1
	}, strings.ToLower(text))
	if strings.Trim(name, "-") == "" {
		return "", fmt.Errorf("the origin %q has no letter or digit that could name it; use a URL or a name such as my-agent", text)
	}
	return Origin("https://" + name + ".local/"), nil
}

// Folder returns the name of the origin's folder: readable, and different for every origin.
func (o Origin) Folder() string {
	readable := "origin"
	if u, err := url.Parse(string(o)); err == nil && u.Host != "" {
		readable = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
				return r
			}
			return '-'
		}, strings.ToLower(u.Host))
	}
	sum := sha256.Sum256([]byte(o))
	return strings.TrimLeft(readable[:min(len(readable), 60)], ".-") + "-" + hex.EncodeToString(sum[:6])
}
