// Package token is the module of named callers: the owner creates tokens with rights of their
// own, looks at them, changes them, and takes them back.
//
//	tokens := token.New(&token.Options{Store: s})
//	p, err := tokens.Authenticate(secret) // the principal that a connection acts for
//
// All of its syscalls are for the owner only; package principal refuses them to every token.
//
// # Goroutines
//
//   - The timer of tokens that expire, one; and what the end of a principal causes: its jobs are ended.
package token

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kernos/internal/when"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// Module returns the module.
func Module(d *Directory) kernel.Module {
	return kernel.Module{
		Name:    "token",
		Version: "1.0.0",
		Summary: "Named callers: tokens, what each of them may do, and until when. For the owner only.",
		Domains: []string{"Token"},
		Syscalls: []kernel.Syscall{
			create.Bind(d.create), enrol.Bind(d.enrol), update.Bind(d.update), rotate.Bind(d.rotate),
			revoke.Bind(d.revoke), show.Bind(d.show), list.Bind(d.list),
		},
	}
}

// Info is what the owner sees of a token.
type Info struct {
	Name    string       `json:"name" jsonschema_description:"The name of the token."`
	ID      principal.ID `json:"id" jsonschema_description:"The principal that the token stands for. Records name it. A name that is created again gets another one."`
	Created int64        `json:"created,omitzero" jsonschema_description:"When the token was made, in milliseconds since 1970."`
	Rotated int64        `json:"rotated,omitzero" jsonschema_description:"When its secret was replaced, in milliseconds since 1970."`
	Expired bool         `json:"expired,omitzero" jsonschema_description:"True if its time is over."`
	Browser *Browser     `json:"browser,omitzero" jsonschema_description:"The browser that has a key in place of a secret."`
	Cookie  bool         `json:"cookie,omitzero" jsonschema_description:"True if the secret is in a cookie, from a version that let browsers in by cookies: it is no longer accepted."`
	principal.Grant
}

func (h *holder) info(now time.Time) Info {
	return Info{Name: h.Name, ID: h.ID, Created: h.Created, Rotated: h.Rotated, Grant: h.Grant, Expired: h.principal.Expired(now), Browser: h.browser(), Cookie: h.cookie()}
}

// What people see of a token, and of a list of them. The rules are the flags that make them.
const (
	expiry = "expired{?expired} | {expires:time} | never"
	key    = "cookie of an earlier version, no longer accepted{?cookie} | " +
		"key of a browser at {browser.origin}[ ({browser.name})][, used {browser.used:time}][, as the owner until {browser.owner:time}]"
)

var (
	columns = []string{
		"NAME {name}", "ID {id}", "PRESET {preset} | -", "CREATED {created:time} | -", "EXPIRES " + expiry, "ROTATED {rotated:time}", "KEY " + key,
		"RULE --allow {allow}", "RULE --deny {deny}", "RULE --files {files}", "RULE --memory {memory}", "RULE --read-only{?readOnly}", "RULE --rate {rate}",
	}
	listColumns = []string{
		"NAME {name}", "PRESET {preset} | -", "CREATED {created:time} | -", "EXPIRES " + expiry,
		"RULES " + key + " | [--allow {allow}][ --deny {deny}][ --files {files}][ --memory {memory}][ --read-only{?readOnly}][ --rate {rate}]",
	}
)

type secretOutput struct {
	Token string `json:"token" jsonschema:"writeOnly=true" jsonschema_description:"The secret of the token: callers send it as Authorization: Bearer TOKEN. It is shown this once; the kernel keeps a hash of it."`
	Info
}

type createInput struct {
	Name string `json:"name" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"A name for the caller: letters, digits, and . _ - between them."`
	principal.Grant
	Expires when.Ahead `json:"expires,omitzero" jsonschema_description:"When the token ends: in 30 days, 2026-01-31, or milliseconds since 1970. Default: never."`
}

var create = kernel.DefineCommand[createInput, secretOutput](kernel.Definition{
	Type:    "Token.Create",
	Summary: "Create a token: a named caller with rights of its own. The reply has its secret, once.",
	Input:   schema.Input[createInput]().Example(`{"name":"ci","preset":"agent","deny":["Http.*"],"memory":["ci"]}`),
	Presentation: kernel.Presentation{
		Title: "Create a token",
		Words: "api key, access, grant, login, user, credential for a caller, give someone access, let a friend in, new api key, add a user, " +
			"invite a colleague, new login, make a key for a program, hand out access, create an account, access for a script, share access",
		Result: "{token}",
		Errors: []kernel.ErrorDefinition{
			{Code: 409, When: "a token has this name already"},
			{Code: 422, When: "the name or a pattern can't be used, or the request has an idempotency key: a secret is shown once"},
			{Code: 503, When: "there are too many tokens"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}},
	Access:   principal.OwnerOnly,
})

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`) })

func (d *Directory) create(ctx context.Context, in createInput) (secretOutput, error) {
	if err := shownOnce(ctx); err != nil {
		return secretOutput{}, err
	}
	if !nameForm().MatchString(in.Name) || in.Name == DefaultName || in.Name == string(principal.OwnerID) {
		return secretOutput{}, message.Invalid("name", "name: expected letters, digits, and . _ - between them, and neither owner nor default, got %q", in.Name)
	}
	if browserForm().MatchString(in.Name) {
		return secretOutput{}, message.Invalid("name", "name: console- and 8 letters is the name of a browser; kernos console lets one in")
	}
	if in.Preset == principal.Bare && len(in.Allow) == 0 {
		in.Preset = principal.Agent
	}
	if err := d.lock(); err != nil {
		return secretOutput{}, err
	}
	defer d.mu.Unlock()
	if d.byName[in.Name] != nil {
		return secretOutput{}, message.Errorf(409, "There is a token %q already; kernos token rotate %s gives it another secret, kernos token revoke %s ends it", in.Name, in.Name, in.Name)
	}
	if len(d.byName) >= maxTokens {
		return secretOutput{}, message.Errorf(503, "There are %d tokens, and no more are taken; revoke some", maxTokens)
	}
	if err := d.checkExpires(in.Expires, &in.Grant); err != nil {
		return secretOutput{}, err
	}
	now := d.opts.Now()
	h := &holder{entry: entry{ID: newID(now), Name: in.Name, Created: now.UnixMilli(), Grant: in.Grant}}
	return d.renew(ctx, h)
}

// checkExpires sets the end of a grant, and refuses one that is over already. Token.Revoke is what ends a token at once.
func (d *Directory) checkExpires(at when.Ahead, g *principal.Grant) error {
	now := d.opts.Now().In(time.Local)
	if at.IsZero() {
		return nil
	}
	if g.Expires = at.Time(now).UnixMilli(); g.Expires > now.UnixMilli() {
		return nil
	}
	return message.Invalid("expires", "expires: the time is over already")
}

// renew gives a token a secret and a principal, and stores it. mu is held.
func (d *Directory) renew(ctx context.Context, h *holder) (secretOutput, error) {
	secret, hash := newSecret()
	h.Hash = hash
	if err := d.keep(ctx, h); err != nil {
		return secretOutput{}, err
	}
	return secretOutput{Token: secret, Info: h.info(d.opts.Now())}, nil
}

// keep makes a principal of a token that is new or was changed, and stores it. mu is held.
func (d *Directory) keep(ctx context.Context, h *holder) (err error) {
	if k, ok := kernel.Of(ctx); ok {
		if err := k.Registry().CheckNames(slices.Concat(h.Grant.Allow, h.Grant.Deny)); err != nil {
			return err
		}
	}
	if h.principal, err = principal.New(h.ID, h.Name, h.Grant); err != nil {
		return err
	}
	value, err := json.Marshal(&h.entry)
	if err != nil {
		return err
	}
	var b store.Batch
	b.Set(h.key(), value)
	return d.change(ctx, h.Name, &b, func() {
		if old := d.byName[h.Name]; old != nil {
			d.remove(old)
			old.end(principal.ErrRevoked)
		}
		d.add(h)
		if h.Grant.Expires != 0 {
			d.expiry.Reset(time.Millisecond)
		}
	})
}

// shownOnce refuses what would keep a secret in order to repeat it.
func shownOnce(ctx context.Context) error {
	if kernel.RequestOf(ctx).Metadata.IdempotencyKey == "" {
		return nil
	}
	return message.Invalid("metadata.idempotencyKey", "metadata.idempotencyKey: the secret of a token is shown once, and not kept to be repeated; send the request without an idempotencyKey")
}

type nameInput struct {
	Name string `json:"name" jsonschema_description:"The name of the token."`
}

var rotate = kernel.DefineCommand[nameInput, secretOutput](kernel.Definition{
	Type:    "Token.Rotate",
	Summary: "Replace the secret of a token. The old one and the connections that use it end; its rights and what it has stored stay.",
	Input:   schema.Input[nameInput]().Example(`{"name":"ci"}`),
	Presentation: kernel.Presentation{
		Title: "Replace a token's secret",
		Words: "renew, new secret, my token leaked, change a token's secret, new password for a token, replace a leaked key, i lost my token, " +
			"someone saw the key, refresh an api key",
		Result: "{token}",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no token has this name"},
			{Code: 409, When: "it is a browser's, which has no secret, or another request changes the token"},
			{Code: 422, When: "the request has an idempotency key: a secret is shown once"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}, Destroys: true},
	Access:   principal.OwnerOnly,
})

func (d *Directory) rotate(ctx context.Context, in nameInput) (secretOutput, error) {
	if err := shownOnce(ctx); err != nil {
		return secretOutput{}, err
	}
	if err := d.lock(); err != nil {
		return secretOutput{}, err
	}
	defer d.mu.Unlock()
	if in.Name == DefaultName {
		return d.rotateDefault()
	}
	old, err := d.find(in.Name, "")
	if err != nil {
		return secretOutput{}, err
	}
	if old.Key != nil || old.cookie() {
		return secretOutput{}, message.Errorf(409, "The token %q belongs to a browser, which has no secret to replace; kernos console lets a browser in", old.Name)
	}
	h := &holder{entry: old.entry}
	h.Rotated = d.opts.Now().UnixMilli()
	return d.renew(ctx, h)
}

// rotateDefault puts a new secret into the file of the default token. mu is held.
func (d *Directory) rotateDefault() (secretOutput, error) {
	if d.file == nil {
		return secretOutput{}, message.Errorf(422, "This kernel takes callers without a token, so the default token has no secret")
	}
	if err := d.file.Replace(); err != nil {
		return secretOutput{}, message.Errorf(500, "The default token can't be replaced: %v", err)
	}
	secret, err := d.file.Value()
	if err != nil {
		return secretOutput{}, message.Errorf(500, "The default token can't be read: %v", err)
	}
	d.secret = secret
	d.renewDefault()
	return secretOutput{Token: secret, Info: d.defaultInfo()}, nil
}

func (d *Directory) defaultInfo() Info {
	return Info{Name: DefaultName, ID: principal.DefaultID, Grant: d.fallback.Grant()}
}

type updateInput struct {
	Name string `json:"name" jsonschema_description:"The name of the token."`
	principal.Grant
	Expires when.Ahead `json:"expires,omitzero" jsonschema_description:"When the token ends: in 30 days, 2026-01-31, or milliseconds since 1970. Default: never."`
	Take    []string   `json:"take,omitzero" jsonschema:"maxItems=256,format=word" jsonschema_description:"Patterns to take out of allow and deny, and limits to lift: read-only, memory, files, expires, rate."`
}

var update = kernel.DefineCommand[updateInput, Info](kernel.Definition{
	Type:    "Token.Update",
	Summary: "Change what a token may do: what is given is added to its patterns, or replaces a single value. Its connections end, and begin again with the new rights.",
	Input:   schema.Input[updateInput]().Example(`{"name":"ci","allow":["Crypto.Open"]}`),
	Presentation: kernel.Presentation{
		Title: "Change a token",
		Words: "permissions, grant, allow, deny, rights, let a user do more, make it read only, take a right away, change what a user may do, " +
			"extend access, give more rights, limit a token, restrict a user, change permissions, when access expires",
		Columns: columns,
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no token has this name"},
			{Code: 409, When: "it is the default token or a cookie of an earlier version, or another request changes the token"},
			{Code: 422, When: "a pattern can't be used, or the time is over already"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}},
	Access:   principal.OwnerOnly,
})

func (d *Directory) update(ctx context.Context, in updateInput) (Info, error) {
	if err := d.lock(); err != nil {
		return Info{}, err
	}
	defer d.mu.Unlock()
	old, err := d.findOwn(in.Name)
	if err != nil {
		return Info{}, err
	}
	if old.cookie() {
		return Info{}, message.Errorf(409, "The token %q is a cookie of an earlier version, which opens nothing; kernos console lets the browser in, and kernos token revoke %[1]s removes the token", old.Name)
	}
	if err := d.checkExpires(in.Expires, &in.Grant); err != nil {
		return Info{}, err
	}
	h := &holder{entry: old.entry, used: old.used}
	g := &h.Grant
	taken := func(pattern string) bool { return slices.Contains(in.Take, pattern) }
	g.Allow = slices.DeleteFunc(union(g.Allow, in.Allow), taken)
	g.Deny = slices.DeleteFunc(union(g.Deny, in.Deny), taken)
	g.Preset = cmp.Or(in.Preset, g.Preset)
	g.ReadOnly = g.ReadOnly || in.ReadOnly
	g.Expires = cmp.Or(in.Grant.Expires, g.Expires)
	g.Rate = cmp.Or(in.Rate, g.Rate)
	if len(in.Memory) > 0 {
		g.Memory = in.Memory
	}
	if len(in.Files) > 0 {
		g.Files = in.Files
	}
	for limit, lift := range map[string]func(){
		"read-only": func() { g.ReadOnly = false }, "memory": func() { g.Memory = nil }, "files": func() { g.Files = nil },
		"expires": func() { g.Expires = 0 }, "rate": func() { g.Rate = 0 },
	} {
		if taken(limit) {
			lift()
		}
	}
	if err := d.keep(ctx, h); err != nil {
		return Info{}, err
	}
	return h.info(d.opts.Now()), nil
}

// union adds patterns to others, each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

type revokeOutput struct {
	Revoked bool         `json:"revoked" jsonschema_description:"True: the token is no longer accepted."`
	ID      principal.ID `json:"id" jsonschema_description:"The principal that has ended."`
}

var revoke = kernel.DefineCommand[nameInput, revokeOutput](kernel.Definition{
	Type:    "Token.Revoke",
	Summary: "Take a token back. Its connections, streams and handlers end at once.",
	Input:   schema.Input[nameInput]().Example(`{"name":"ci"}`),
	Presentation: kernel.Presentation{
		Title: "Revoke a token",
		Words: "delete a token, ban, block, lock out, log out, kick someone out, take access away, remove a user, delete an api key, disable a key, " +
			"should no longer get in, block a user, cut off access",
		Result: "The token {request.name} is no longer accepted",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no token has this name"},
			{Code: 409, When: "it is the default token, or another request changes the token"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}, Destroys: true, Repeat: kernel.Idempotent},
	Access:   principal.OwnerOnly,
})

func (d *Directory) revoke(ctx context.Context, in nameInput) (revokeOutput, error) {
	if err := d.lock(); err != nil {
		return revokeOutput{}, err
	}
	defer d.mu.Unlock()
	h, err := d.findOwn(in.Name)
	if err != nil {
		return revokeOutput{}, err
	}
	if err := d.drop(ctx, h); err != nil {
		return revokeOutput{}, err
	}
	h.end(principal.ErrRevoked)
	return revokeOutput{Revoked: true, ID: h.ID}, nil
}

var show = kernel.DefineQuery[nameInput, Info](kernel.Definition{
	Type:    "Token.Show",
	Summary: "Show a token and what it may do. Its secret is not kept, and can't be shown.",
	Input:   schema.Input[nameInput]().Example(`{"name":"default"}`),
	Presentation: kernel.Presentation{
		Title: "Show a token",
		Words: "rights, permissions, what may this token do, details of a token, when does a token expire, rights of one user, is this key still valid, " +
			"what is a user allowed to do",
		Columns: columns,
		Errors:  []kernel.ErrorDefinition{{Code: 404, When: "no token has this name"}},
	},
	Behavior:  kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
	Access:    principal.OwnerOnly,
})

func (d *Directory) show(_ context.Context, in nameInput) (Info, error) {
	if err := d.lock(); err != nil {
		return Info{}, err
	}
	defer d.mu.Unlock()
	if in.Name == DefaultName {
		return d.defaultInfo(), nil
	}
	h, err := d.find(in.Name, "")
	if err != nil {
		return Info{}, err
	}
	return h.info(d.opts.Now()), nil
}

type listOutput struct {
	Tokens []Info `json:"tokens" jsonschema_description:"The tokens by name, the default token first."`
}

var list = kernel.DefineQuery[struct{}, listOutput](kernel.Definition{
	Type:    "Token.List",
	Summary: "List the tokens and what each of them may do.",
	Presentation: kernel.Presentation{Title: "List tokens", Words: "api keys, who may do what, users, accounts, who can get in, who has access, which keys exist, list users, who can log in, all api keys, " +
		"which programs may get in, which tokens are there, who is allowed in, show all accounts", Columns: listColumns},
	Behavior:  kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
	Access:    principal.OwnerOnly,
})

func (d *Directory) list(context.Context, struct{}) (listOutput, error) {
	if err := d.lock(); err != nil {
		return listOutput{}, err
	}
	defer d.mu.Unlock()
	tokens := []Info{d.defaultInfo()}
	for _, h := range d.byName {
		tokens = append(tokens, h.info(d.opts.Now()))
	}
	slices.SortFunc(tokens[1:], func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return listOutput{tokens}, nil
}
