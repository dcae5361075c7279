// Package principal names the callers of a kernel, and decides what they may do.
//
// A connection acts for a principal: the owner of the home, or a token with a name. A [Grant]
// is what the owner has given a token. One function, [Principal.May], decides whether a
// principal may call a syscall; every wire and every nested call asks it:
//
//	p, err := principal.New("01J…", "ci", principal.Grant{Preset: principal.Agent, Deny: []string{"Http.*"}})
//	err = p.May(principal.Target{Type: "Crypto.Open", Kind: message.KindQuery, Access: principal.ByName}) // a 403 that names the rule
//
// What a principal reaches inside a syscall (keys, files, messages of others) is decided by
// the other methods, where the syscall does it.
package principal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"kernos/message"
)

// An ID identifies a principal. A name that is created again gets another ID, and inherits
// nothing.
type ID string

// OwnerID is the ID of the owner. Records that name no principal are the owner's.
const OwnerID ID = "owner"

// DefaultID is the ID of the default token, which a home begins with.
const DefaultID ID = "default"

// A Principal is who a message acts for. It is safe for concurrent use.
type Principal struct {
	id    ID
	name  string
	grant Grant
	rules []rule // in the order in which they decide; empty for the owner

	pace *rate.Limiter // nil means any number of requests

	decided atomic.Pointer[verdicts]
	mu      sync.Mutex // serialises additions to decided

	parts  []*Principal // set by [Both]: the principal may do what all of parts may
	person bool         // set by [Principal.Deciding]

	life context.Context // ends when the principal may do nothing more
	end  context.CancelCauseFunc
}

// owner has a life without an end, which costs nothing to wait for.
var owner = &Principal{id: OwnerID, name: "owner", grant: Grant{Preset: Owner}, life: context.Background()}

// TheOwner returns the principal that may do everything.
func TheOwner() *Principal { return owner }

// AsOwner returns a principal with the rights of the owner that can end, for a browser of the owner. Its name
// has the name of the browser's token, so that records show what came from there. What it stores and starts is the owner's.
func AsOwner(browser string) *Principal {
	p := &Principal{id: OwnerID, name: string(OwnerID) + "@" + browser, grant: Grant{Preset: Owner}}
	p.life, p.end = context.WithCancelCause(context.Background())
	return p
}

// New returns the principal of a token. The error is a *message.Error that names which part
// of the grant makes no sense.
func New(id ID, name string, g Grant) (*Principal, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	p := &Principal{id: id, name: name, grant: g, rules: g.rules()}
	p.life, p.end = context.WithCancelCause(context.Background())
	if g.Rate > 0 {
		p.pace = rate.NewLimiter(rate.Limit(g.Rate), int(min(max(1, math.Ceil(g.Rate)), math.MaxInt32)))
	}
	return p, nil
}

// ID returns what distinguishes the principal from all others, also from earlier ones of its name.
func (p *Principal) ID() ID { return p.id }

// Name returns the name that people know the principal by.
func (p *Principal) Name() string { return p.name }

// Grant returns what the principal was given.
func (p *Principal) Grant() Grant { return p.grant }

// IsOwner reports whether the principal is the owner.
func (p *Principal) IsOwner() bool { return p.id == OwnerID }

// Why a principal has ended.
var (
	ErrRevoked = errors.New("the token was revoked")
	ErrExpired = errors.New("the token has expired")
	ErrLent    = errors.New("the time with the owner's rights is over; kernos console --owner gives them again")
)

// End takes all rights away, for a reason: [ErrRevoked], [ErrExpired] or [ErrLent]. What acts for the
// principal ends with [Principal.Life]. [TheOwner] doesn't end.
func (p *Principal) End(reason error) {
	if p.end != nil {
		p.end(reason)
	}
}

// Life ends when the principal does. Connections, streams and handlers of the principal end
// with it; its cause is the reason.
func (p *Principal) Life() context.Context { return p.life }

// Expired reports whether the principal's time is over.
func (p *Principal) Expired(now time.Time) bool {
	return p.grant.Expires != 0 && now.UnixMilli() >= p.grant.Expires
}

// Admit returns nil if the principal may send one more request, or else a 429: it may send as
// many in a second as its grant allows, all at once if it likes.
func (p *Principal) Admit() *message.Error {
	if p.pace == nil || p.pace.Allow() {
		return nil
	}
	return message.Errorf(429, "The token %q may send %g requests per second, and has; wait, or the owner can change that: kernos token update %s --rate NUMBER", p.name, p.grant.Rate, p.name)
}

// Sees reports whether the principal sees and controls what another one has sent, started
// or stored. A token that reaches a part of the memory or of the files only sees its own:
// what others have sent would show the rest.
func (p *Principal) Sees(other ID) bool {
	return p.id == other || p.SeesAll() || p.person && other.narrower(p.id)
}

// IsPerson reports whether the principal is the owner, or the owner's browser.
func (p *Principal) IsPerson() bool {
	return p.IsOwner() || p.parts == nil && p.grant.Preset == Console
}

// Deciding returns the principal of the person at a client that acts for p. It may decide about approvals of
// sessions that act for p, alone or with the author of code, by calling decide, and nothing else. The error is a 403
// if the owner has denied p that.
func (p *Principal) Deciding(client string, decide Target) (*Principal, *message.Error) {
	person := &Principal{
		id: p.id, name: p.name + ", by elicitation through " + client, life: p.life, end: p.end, person: true,
		grant: Grant{Allow: []string{string(decide.Type)}, Deny: p.grant.Deny, ReadOnly: p.grant.ReadOnly || p.parts != nil},
	}
	person.rules = person.grant.rules()
	return person, person.May(decide)
}

// SeesAll reports whether the principal sees the messages of all principals.
func (p *Principal) SeesAll() bool {
	if p.parts != nil {
		return p.all((*Principal).SeesAll)
	}
	return presets[p.grant.Preset].history && len(p.grant.Memory) == 0 && len(p.grant.Files) == 0
}

// ChangesSettings reports whether the principal may change the settings of the kernel.
func (p *Principal) ChangesSettings() bool {
	if p.parts != nil {
		return p.all((*Principal).ChangesSettings)
	}
	return presets[p.grant.Preset].settings && !p.grant.ReadOnly
}

// Serves returns nil if the principal may serve a syscall over its connections, or else a 403: a
// program sees what its callers send. To be asked of a principal that may call Syscall.Register,
// which presets include for connections or for code, and patterns for both.
func (p *Principal) Serves(t message.Type) *message.Error {
	return p.registers("serve "+string(t)+" over its connection", func(of preset) bool { return of.serves })
}

// RegistersCode returns nil if the principal may have the kernel run code for a syscall, or else a
// 403. It is to be asked of the same principals as [Principal.Serves].
func (p *Principal) RegistersCode(t message.Type) *message.Error {
	return p.registers("register code for "+string(t), func(of preset) bool { return of.code })
}

func (p *Principal) registers(what string, included func(preset) bool) *message.Error {
	if p.parts != nil {
		return p.first(func(one *Principal) *message.Error { return one.registers(what, included) })
	}
	register := Target{Type: "Syscall.Register", Kind: message.KindCommand}
	if included(presets[p.grant.Preset]) || matching(p.grant.Allow)(register) {
		return nil
	}
	return message.Errorf(403, "The token %q may not %s: its preset %s doesn't include that; %s", p.name, what, p.grant.Preset, p.remedy(register, ""))
}

// RunsTools reports whether programs may be run for the principal, such as the tools that
// hydration describes by running them.
func (p *Principal) RunsTools() bool { return p.IsOwner() }

// Key returns nil if the principal reaches a key of the memory, which is in its normal form,
// or else a 403.
func (p *Principal) Key(key string) *message.Error {
	if p.parts != nil {
		return p.first(func(one *Principal) *message.Error { return one.Key(key) })
	}
	if len(p.grant.Memory) == 0 || within(key, p.grant.Memory) {
		return nil
	}
	return message.Errorf(403, "The token %q reaches no key but those below %s, and %s isn't one of them; the owner can change that: kernos token update %s --memory PREFIX", p.name, list(p.grant.Memory), message.Clip(key, 100), p.name)
}

// Folder returns nil if the principal reaches a folder of the memory, or something below it, or
// else a 403. The root is "".
func (p *Principal) Folder(folder string) *message.Error {
	if p.parts != nil {
		return p.first(func(one *Principal) *message.Error { return one.Folder(folder) })
	}
	if folder == "" || slices.ContainsFunc(p.grant.Memory, func(prefix string) bool { return strings.HasPrefix(prefix, folder+"/") }) {
		return nil
	}
	return p.Key(folder)
}

// Setting returns nil if the principal may change a setting of the kernel, or else a 403.
func (p *Principal) Setting(name string) *message.Error {
	if p.ChangesSettings() {
		return nil
	}
	return message.Errorf(403, "The token %q may not change the setting %s: settings are for the owner and for tokens of the preset console; change it over the unix socket of the daemon, as its owner", p.name, message.Clip(name, 100))
}

// Model returns nil if the principal may change the settings of language models, of which one has a key, or else a
// 403: what the owner says to a model goes where they point.
func (p *Principal) Model(key string) *message.Error {
	if p.IsOwner() {
		return nil
	}
	return message.Errorf(403, "The token %q may not change %s: conversations go where the settings of models point, so they are the owner's to change; change it over the unix socket of the daemon, as its owner", p.name, message.Clip(key, 100))
}

// KeyPrefixes returns the prefixes of the keys that the principal reaches; none means all.
func (p *Principal) KeyPrefixes() []string { return p.grant.Memory }

// Directory returns nil if the principal may list a directory of the tree: it reaches the
// directory, or something below it.
func (p *Principal) Directory(uri string) *message.Error {
	if p.parts != nil {
		return p.first(func(one *Principal) *message.Error { return one.Directory(uri) })
	}
	above := strings.TrimRight(uri, "/") + "/"
	if strings.HasSuffix(uri, "://") {
		above = uri
	}
	if slices.ContainsFunc(p.grant.Files, func(f string) bool { return strings.HasPrefix(parseFileScope(f).uri, above) }) {
		return nil
	}
	return p.File(uri, false)
}

// File returns nil if the principal may read, or write, a URI of the tree in its absolute
// form, or else a 403.
func (p *Principal) File(uri string, write bool) *message.Error {
	if p.parts != nil {
		return p.first(func(one *Principal) *message.Error { return one.File(uri, write) })
	}
	if len(p.grant.Files) == 0 {
		return nil
	}
	readable := false
	for _, f := range p.grant.Files {
		scope := parseFileScope(f)
		if scope.holds(uri) {
			readable = true
			if !write || !scope.readOnly {
				return nil
			}
		}
	}
	if readable {
		return message.Errorf(403, "The token %q may read %s, and not change it; the owner can change that: kernos token update %s --files URI", p.name, message.Clip(uri, 200), p.name)
	}
	return message.Errorf(403, "The token %q reaches no files but %s, and %s isn't one of them; the owner can change that: kernos token update %s --files URI", p.name, list(p.grant.Files), message.Clip(uri, 200), p.name)
}

// HasFiles reports whether the principal reaches some files of the tree and not others.
func (p *Principal) HasFiles() bool {
	return len(p.grant.Files) > 0 || slices.ContainsFunc(p.parts, (*Principal).HasFiles)
}

// SeesAllKeys reports whether the principal reaches all keys of the memory.
func (p *Principal) SeesAllKeys() bool {
	return len(p.grant.Memory) == 0 && p.all((*Principal).SeesAllKeys)
}

// SeesAllFiles reports whether the principal reaches the whole tree of files, of which the memory is a part.
func (p *Principal) SeesAllFiles() bool { return !p.HasFiles() && p.SeesAllKeys() }

// A Claim names the principal that owns something that is kept.
type Claim struct {
	ID   ID     `json:"id"`
	Name string `json:"name"`
}

// Claim returns the claim of the principal.
func (p *Principal) Claim() Claim { return Claim{p.ID(), p.Name()} }

func (c Claim) String() string {
	if c.ID == OwnerID {
		return "the owner"
	}
	return fmt.Sprintf("the token %q", c.Name)
}
