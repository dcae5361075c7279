package token

import (
	"bytes"
	"context"
	"crypto/rand"
	"regexp"
	"strings"
	"sync"
	"time"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// A Key is what a browser is known by: it holds the private part, which nothing can read, and signs a challenge for each
// connection. The public part opens nothing.
type Key struct {
	Public []byte `json:"public" jsonschema_description:"The public key: a point of P-256, not compressed."`
	Origin string `json:"origin" jsonschema_description:"Scheme, host and port under which the browser knows this kernel, and which keep the key from other pages."`
	Agent  string `json:"agent,omitzero" jsonschema:"maxLength=64" jsonschema_description:"The name of the browser, if it is known."`
}

// Browser is what the owner sees of a browser's key.
type Browser struct {
	Name   string `json:"name,omitzero" jsonschema_description:"The browser, as it names itself."`
	Origin string `json:"origin" jsonschema_description:"The address of the console that the key is for."`
	Used   int64  `json:"used,omitzero" jsonschema_description:"When the browser has connected for the last time since the daemon began, in milliseconds since 1970."`
	Owner  int64  `json:"owner,omitzero" jsonschema_description:"Until when the browser acts for the owner, in milliseconds since 1970."`
}

func (h *holder) browser() *Browser {
	if h.Key == nil {
		return nil
	}
	b := &Browser{Name: h.Key.Agent, Origin: h.Key.Origin, Used: h.used}
	if h.lent != nil {
		b.Owner = h.lent.until.UnixMilli()
	}
	return b
}

const (
	// browserPrefix begins the names of the tokens of browsers.
	browserPrefix = "console-"

	// browserLife is how long a browser is let in.
	browserLife = 30 * 24 * time.Hour
)

// browserForm is the form of the names of the tokens of browsers.
var browserForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^console-[a-z2-7]{8}$`) })

// cookie reports whether the secret of a token is in the cookie of a browser, from versions before 0.19. Programs could send
// it as well, and browsers sent it to every port of a machine. It is no longer accepted; what the token has stored and
// registered stays until it expires.
func (h *holder) cookie() bool {
	life := time.Duration(h.Grant.Expires-h.Created) * time.Millisecond // the end was reckoned a moment before the token was made
	return h.Key == nil && h.Grant.Preset == principal.Console && h.Rotated == 0 && browserForm().MatchString(h.Name) &&
		life <= browserLife && life > browserLife-time.Minute
}

// A loan is the time in which connections of a browser act for the owner. It isn't stored: it doesn't survive the process.
type loan struct {
	owner *principal.Principal
	until time.Time
}

// over reports whether a loan has ended, by the time of day or by the time that has passed: one of the two stands still while a machine
// sleeps, the other one can be set back.
func (l *loan) over(now time.Time) bool {
	return !now.Before(l.until) || !now.Round(0).Before(l.until.Round(0))
}

var enrol = kernel.DefineCommand[Key, Info](kernel.Definition{
	Type:    "Token.Enrol",
	Summary: "Let a browser in by its public key, for 30 days, as a token of the preset console. A key that is known gets 30 days again.",
	Presentation: kernel.Presentation{
		Errors: []kernel.ErrorDefinition{
			{Code: 409, When: "another request changes the token"},
			{Code: 503, When: "there are too many tokens"},
		},
		Visibility: kernel.Hidden,
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}},
	Access:   principal.OwnerOnly,
})

func (d *Directory) enrol(ctx context.Context, in Key) (Info, error) {
	if err := d.lock(); err != nil {
		return Info{}, err
	}
	defer d.mu.Unlock()
	now := d.opts.Now()
	h := &holder{entry: entry{ID: newID(now), Name: browserPrefix + strings.ToLower(rand.Text()[:8]), Created: now.UnixMilli(), Grant: principal.Grant{Preset: principal.Console}}}
	for _, other := range d.byName {
		switch {
		case other.Key != nil && bytes.Equal(other.Key.Public, in.Public) && d.lives(other):
			h.entry = other.entry
		case (other.Key != nil || other.cookie()) && other.principal.Expired(now) && !d.changing[other.Name]:
			if err := d.drop(ctx, other); err != nil {
				return Info{}, err
			}
		}
	}
	if d.byName[h.Name] == nil && len(d.byName) >= maxTokens {
		return Info{}, message.Errorf(503, "There are %d tokens, and no more are taken; revoke some", maxTokens)
	}
	h.Key, h.Grant.Expires, h.used = &in, now.Add(browserLife).UnixMilli(), now.UnixMilli()
	if err := d.keep(ctx, h); err != nil {
		return Info{}, err
	}
	return h.info(now), nil
}

// drop stages the removal of a token. mu is held.
func (d *Directory) drop(ctx context.Context, h *holder) error {
	var b store.Batch
	b.Delete(h.key())
	return d.change(ctx, h.Name, &b, func() { d.remove(h) })
}

// Prove returns the principal that a browser acts for, if verify finds that it has proved to hold the key of a token. The error is
// a 401 that names the next step, or the store's error.
func (d *Directory) Prove(name string, verify func(Key) bool) (*principal.Principal, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	h := d.byName[name]
	d.mu.Unlock()
	if h == nil || h.Key == nil || !verify(*h.Key) {
		return nil, message.Errorf(401, "The key of this browser isn't known here: it was revoked, or has expired. Type kernos console in a terminal to let the browser in again")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byName[name] != h || !d.lives(h) {
		return nil, message.Errorf(401, "The key of this browser has expired, or was revoked. Type kernos console in a terminal to let the browser in again")
	}
	now := d.opts.Now()
	h.used = now.UnixMilli()
	if h.lent != nil && !h.lent.over(now) {
		return h.lent.owner, nil
	}
	return h.principal, nil
}

// Lend lets connections of a browser, by the name of its token, act for the owner until a time.
func (d *Directory) Lend(name string, until time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.find(name, "")
	if err != nil {
		return err
	}
	if h.lent != nil {
		h.lent.owner.End(principal.ErrLent)
	}
	h.lent = &loan{principal.AsOwner(name), until}
	d.expiry.Reset(time.Millisecond)
	return nil
}

// BrowserOf returns the token of the browser that a principal is; false if it is none.
func (d *Directory) BrowserOf(p *principal.Principal) (Info, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.byName {
		if h.Key != nil && (h.principal == p || h.lent != nil && h.lent.owner == p) {
			return h.info(d.opts.Now()), true
		}
	}
	return Info{}, false
}
