package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"kernos/message"
)

// signedPrefix begins everything that the key of a browser signs.
const signedPrefix = "kernos-console:v1"

// signed returns the text that the key of a browser signs: for one origin, one purpose and one challenge.
func signed(origin, purpose, challenge string) []byte {
	return []byte(strings.Join([]string{signedPrefix, origin, purpose, challenge}, "\n"))
}

// purpose returns what a request is for, as its signature has it.
func purpose(r *http.Request) string { return r.Method + " " + r.URL.Path }

// verify reports whether a signature is by a key, as WebCrypto makes it with ECDSA, P-256 and SHA-256.
func verify(public []byte, origin, purpose, challenge string, signature []byte) bool {
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), public)
	if err != nil || len(signature) != 64 {
		return false
	}
	hash := sha256.Sum256(signed(origin, purpose, challenge))
	return ecdsa.Verify(key, hash[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
}

// ownOrigin reports whether an origin is the console's, by the request. The guard has checked the Host and, if there is one,
// the Origin of the request. Only a proxy has TLS where the request has none; then the origin was allowed when the browser was let in.
func ownOrigin(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil)
}

// A Proof is what a browser sends to prove that it holds the key of a token: NAME.CHALLENGE.SIGNATURE.
type Proof struct {
	Name                 string
	challenge, signature string
	r                    *http.Request
	c                    *Console
}

// Proof reads the proof that came with a request. The error is a 401.
func (c *Console) Proof(r *http.Request, text string) (Proof, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return Proof{}, message.Errorf(401, "Expected the proof of a browser: NAME.CHALLENGE.SIGNATURE")
	}
	return Proof{parts[0], parts[1], parts[2], r, c}, nil
}

// Holds reports whether the proof is by a key that was enrolled for an origin. It does so once for each challenge.
func (p Proof) Holds(public []byte, origin string) bool {
	signature, err := base64.RawURLEncoding.DecodeString(p.signature)
	if from := p.r.Header.Get("Origin"); from != "" && from != origin {
		return false
	}
	return err == nil && ownOrigin(p.r, origin) && verify(public, origin, purpose(p.r), p.challenge, signature) && p.c.challenges.take(p.challenge)
}

// challengeTime is how long a challenge may be answered.
const challengeTime = time.Minute

// challenges are texts to be signed, each good for one answer. They are recognised by an authentication code, so that asking for
// many takes no memory; what is kept are those that a browser has answered.
type challenges struct {
	now func() time.Time
	key [32]byte

	mu    sync.Mutex
	used  map[string]time.Time // the challenges that were answered, and when each would end
	swept time.Time
}

func newChallenges(now func() time.Time) *challenges {
	c := &challenges{now: now, used: make(map[string]time.Time)}
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

// The parts of a challenge: when it was made, random bytes, and the code of both.
const (
	timeBytes   = 8
	randomBytes = 16
	codeBytes   = 16
)

// next returns a challenge that was never used before.
func (c *challenges) next() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(c.now().UnixMilli()))
	b = append(b, make([]byte, randomBytes)...)
	_, _ = rand.Read(b[timeBytes:])
	return base64.RawURLEncoding.EncodeToString(append(b, c.code(b)...))
}

func (c *challenges) code(b []byte) []byte {
	mac := hmac.New(sha256.New, c.key[:])
	_, _ = mac.Write(b)
	return mac.Sum(nil)[:codeBytes]
}

// take reports whether a challenge may be answered, and makes it useless. It is called for a good signature only: others must take no memory.
func (c *challenges) take(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != timeBytes+randomBytes+codeBytes || !hmac.Equal(b[timeBytes+randomBytes:], c.code(b[:timeBytes+randomBytes])) {
		return false
	}
	made, now := time.UnixMilli(int64(binary.BigEndian.Uint64(b))), c.now()
	if age := now.Sub(made); age < -challengeTime || age >= challengeTime {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.swept).Abs() >= challengeTime {
		c.swept = now
		maps.DeleteFunc(c.used, func(_ string, end time.Time) bool { return !now.Before(end) })
	}
	if _, used := c.used[string(b)]; used { // a text has other spellings, its bytes have none
		return false
	}
	c.used[string(b)] = made.Add(challengeTime)
	return true
}

// browsers recognise a browser in what it sends as User-Agent: the first that fits.
var browsers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(Firefox|Edg|OPR|Chrome|Version)/(\d{1,4})`) })

// browserName returns the name and version of a browser, or "".
func browserName(agent string) string {
	found := map[string]string{}
	for _, m := range browsers().FindAllStringSubmatch(agent, 8) {
		found[m[1]] = m[2]
	}
	for _, b := range [][2]string{{"Firefox", "Firefox"}, {"Edg", "Edge"}, {"OPR", "Opera"}, {"Chrome", "Chrome"}, {"Version", "Safari"}} {
		if version := found[b[0]]; version != "" {
			return b[1] + " " + version
		}
	}
	return ""
}
