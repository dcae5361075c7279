package sealed

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
)

// A Source is where a key comes from.
type Source string

// The sources that there are. They begin a kid.
const (
	Agent Source = "ssh-fp"       // a signature that ssh-agent makes
	Local Source = "kernos-local" // a file of this kernel
)

// A Kid names a key. It reveals nothing about the key's bytes: Digest is the SHA-256 of a
// public key, or of the name of a local one. Kids can be compared with ==.
type Kid struct {
	Source Source
	Digest [sha256.Size]byte
}

const hash = ":SHA256:"

// errKid quotes nothing: what stands where a kid belongs may be anything.
var errKid = errors.New("a key is named ssh-fp:SHA256:… or kernos-local:SHA256:…, with 32 bytes in base64")

// ParseKid reads a kid. Two spellings of the digest are in use, base64url and the base64 of
// OpenSSH, with or without padding; they mean the same key.
func ParseKid(text string) (Kid, error) {
	source, digest, ok := strings.Cut(text, hash)
	if !ok || Source(source) != Agent && Source(source) != Local {
		return Kid{}, errKid
	}
	digest = strings.TrimRight(digest, "=")
	if strings.ContainsAny(digest, "+/") {
		digest = strings.NewReplacer("+", "-", "/", "_").Replace(digest)
	}
	k := Kid{Source: Source(source)}
	data, ok := decode([]byte(digest))
	if !ok || len(data) != len(k.Digest) {
		return Kid{}, errKid
	}
	copy(k.Digest[:], data)
	return k, nil
}

// String spells the digest in base64url: there are programs that compare kids as texts, and
// that is how they write them.
func (k Kid) String() string {
	return string(k.Source) + hash + base64.RawURLEncoding.EncodeToString(k.Digest[:])
}
