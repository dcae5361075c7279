package script

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"deps.dev/util/semver"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"kernos/capability/script/engine"
	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

const (
	// MaxCode is how many bytes of code a script may have; of a WebAssembly module, without base64.
	MaxCode = 4 << 20

	maxVersions = 16 // versions that are kept of a script
	maxWeight   = 10_000

	registerBurst = 16 // registrations of one principal at once; then one per second
	maxPaces      = 10_000
)

// A Source is code that is to be registered, with its author's description of it.
type Source struct {
	Name          message.Type
	Kind          message.Kind   // "" means what the code exports
	Input, Output jsontext.Value // nil means what the code exports
	Description   string
	Presentation  kernel.Presentation // what it leaves out is what the code exports
	Version       string              // "" means the next one
	Code          string
	CodeRef       *message.BlobPointer // replaces Code
	Language      string               // ts, js or wasm; "" means ts
	Emits         []Event
	Limits        Limits
	SafeToRepeat  bool
	Weights       map[string]int // weights of versions; nil means that only this one is called
}

// A Prepared is code that can be registered.
type Prepared struct {
	name    message.Type
	edition edition
	code    string
	weights map[string]int
	program *engine.Program
}

// Prepare compiles code and checks its description, for a principal that is to be its author.
// Errors are 422, with the place in the code, and 429 if the principal has registered too much
// lately.
func (s *Scripts) Prepare(ctx context.Context, author *principal.Principal, src Source) (*Prepared, error) {
	if fileOf(ctx).URI == "" {
		if err := s.pace(author); err != nil {
			return nil, err
		}
	}
	e, program, err := s.edition(ctx, &src)
	if err != nil {
		return nil, err
	}
	if e.Version = cmp.Or(src.Version, program.Version); e.Version != "" {
		if parseVersion(e.Version) == nil {
			return nil, message.Invalid("version", "version: expected a semantic version such as 1.2.0, got %q", message.Clip(e.Version, 64))
		}
	}
	return &Prepared{name: src.Name, edition: e, code: src.Code, weights: src.Weights, program: program}, nil
}

// pace counts a registration.
func (s *Scripts) pace(p *principal.Principal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.paces[p.ID()]
	if one == nil {
		if len(s.paces) >= maxPaces {
			clear(s.paces)
		}
		one = rate.NewLimiter(1, registerBurst)
		s.paces[p.ID()] = one
	}
	if one.Allow() {
		return nil
	}
	return message.Errorf(429, "Code may be registered %d times at once, and then once per second; wait a second and try again", registerBurst)
}

// edition compiles code and returns what is to be stored of it, without a version.
func (s *Scripts) edition(ctx context.Context, src *Source) (e edition, program *engine.Program, err error) {
	if program, err = s.compile(ctx, src); err != nil {
		return e, nil, err
	}
	e = edition{
		Kind: cmp.Or(src.Kind, message.Kind(program.Kind)), Description: cmp.Or(strings.TrimSpace(src.Description), strings.TrimSpace(message.Clip(program.Description, 1024)), fmt.Sprintf("%s, which its code doesn't describe.", src.Name)),
		Emits: src.Emits, Language: cmp.Or(src.Language, "ts"), Limits: src.Limits, SafeToRepeat: src.SafeToRepeat, Bytes: len(src.Code),
	}
	if err := complete(e.Kind, src, program); err != nil {
		return e, nil, err
	}
	if e.Kind != message.KindCommand && e.Kind != message.KindQuery {
		return e, nil, message.Invalid("kind", "kind: the code exports %q, expected command or query", message.Clip(string(e.Kind), 64))
	}
	if e.Input, err = chooseSchema("inputSchema", "InputSchema", src.Input, jsontext.Value(program.InputSchema)); err != nil {
		return e, nil, err
	}
	if e.Output, err = chooseSchema("outputSchema", "OutputSchema", src.Output, jsontext.Value(program.OutputSchema)); err != nil {
		return e, nil, err
	}
	if e.Presentation, err = choosePresentation(src.Presentation, jsontext.Value(program.Presentation), e.Input); err != nil {
		return e, nil, err
	}
	e.Hash, err = e.fingerprint(src.Code)
	return e, program, err
}

// complete checks that the registration or the code states what every syscall has. The error names all that is missing, and
// the lines of code that state it.
func complete(kind message.Kind, src *Source, program *engine.Program) error {
	var fields, exports []string
	for _, f := range []struct {
		name, export string
		stated       bool
	}{
		{"kind", `export const kind = "query";`, kind != ""},
		{"inputSchema", `export const InputSchema = { type: "object" };`, src.Input != nil || program.InputSchema != nil},
		{"outputSchema", `export const OutputSchema = { type: "object" };`, src.Output != nil || program.OutputSchema != nil},
	} {
		if !f.stated {
			fields, exports = append(fields, f.name), append(exports, f.export)
		}
	}
	switch len(fields) {
	case 0:
		return nil
	case 1:
		return message.Invalid(fields[0], "missing required field: %s; give it, or export it from the code: %s", fields[0], exports[0])
	}
	return message.Invalid(fields[0], "missing required fields: %s; give them, or export them from the code: %s", strings.Join(fields, ", "), strings.Join(exports, " "))
}

// choosePresentation returns the presentation that is given, or else the one that the code exports.
func choosePresentation(given kernel.Presentation, exported jsontext.Value, input []byte) (kernel.Presentation, error) {
	if reflect.ValueOf(given).IsZero() && exported != nil {
		if err := jsonv2.Unmarshal(exported, &given, jsonv2.RejectUnknownMembers(true)); err != nil {
			return given, message.Invalid("presentation", "presentation: what the code exports isn't one: %v", err)
		}
	}
	if err := given.Check(input); err != nil {
		return given, message.Invalid("presentation", "presentation: %v", err)
	}
	return given, nil
}

// compile compiles code, which must export a handler.
func (s *Scripts) compile(ctx context.Context, src *Source) (*engine.Program, error) {
	if src.CodeRef != nil {
		if src.Code != "" || s.opts.Open == nil {
			return nil, message.Invalid("codeRef", "give code or codeRef, and not both")
		}
		text, err := s.opts.Open(ctx, *src.CodeRef)
		if err != nil {
			return nil, err
		}
		src.Code = string(text)
	}
	if strings.HasPrefix(src.Code, "\x00asm") { // a module as it is in a file, which text can carry if it is valid UTF-8
		src.Code = base64.StdEncoding.EncodeToString([]byte(src.Code))
	}
	size := len(src.Code)
	if src.Language == "wasm" {
		size = base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(src.Code, "=")))
	}
	switch {
	case size > MaxCode:
		return nil, message.Errorf(413, "The code of %s has %d bytes, and may have %d", src.Name, size, MaxCode)
	case strings.TrimSpace(src.Code) == "":
		return nil, message.Invalid("code", "code: expected code that exports handler, got none")
	}
	program, err := s.opts.Engine.Compile(ctx, engine.Source{Name: string(src.Name), Code: src.Code, Language: cmp.Or(src.Language, "ts")})
	if fault, ok := errors.AsType[*engine.CodeError](err); ok {
		return nil, &message.Error{Code: 422, Message: fault.Error(), Field: "code"}
	}
	if err != nil {
		return nil, err
	}
	if !program.Handler {
		return nil, message.Invalid("code", "code: it doesn't export handler; write: export const handler = async (input) => …")
	}
	return program, nil
}

// Announcement returns the data of the events about registrations.
func Announcement(t message.Type, version string) []byte {
	text, _ := json.Marshal(struct { // never fails
		Name    message.Type `json:"name"`
		Version string       `json:"version"`
	}{t, version})
	return text
}

// chooseSchema returns a schema as it is written, without white space: the one that is given, or
// else the one that the code exports. There is at least one; if there are both, they have to agree.
func chooseSchema(field, export string, given, exported jsontext.Value) (jsontext.Value, error) {
	if given == nil {
		given = exported
	}
	_, _, err := ReadSchema(field, given)
	if err == nil && exported != nil && !sameSchema(given, exported) {
		err = message.Invalid(field, "%s differs from the %s that the code exports; leave one of them out", field, export)
	}
	if err != nil {
		return nil, err
	}
	given = given.Clone()
	return given, given.Compact()
}

// maxSchema is how many bytes a schema may have, so that Syscall.Describe fits on a line.
const maxSchema = message.MaxLine

// ReadSchema checks a schema that came with a registration, and returns it with its canonical text.
func ReadSchema(field string, text jsontext.Value) (s *schema.Schema, canonical []byte, err error) {
	if len(text) > maxSchema {
		return nil, nil, message.Invalid(field, "%s: expected at most %d bytes, got %d", field, maxSchema, len(text))
	}
	if s, err = schema.Parse([]byte(text)); err != nil {
		return nil, nil, message.Invalid(field, "%s is %v", field, err)
	}
	canonical = jsonscan.AppendCanonical(nil, text)
	if string(canonical) == "{}" || string(canonical) == "true" {
		s = schema.Any
	}
	return s, canonical, nil
}

// Register makes prepared code a version of a script, which is called from now on. It is called
// for the author; that the name is free for the author was checked. What a session registers is under
// its rules.
func (s *Scripts) Register(ctx context.Context, author *principal.Principal, p *Prepared) (r Registered, err error) {
	err = s.lock()
	defer s.mu.Unlock()
	if err != nil {
		return r, err
	}
	old := s.byName[p.name]
	next := &script{name: p.name, head: head{Author: author.Claim(), File: fileOf(ctx).URI, Folder: fileOf(ctx).Folder}}
	var batch store.Batch
	switch {
	case old == nil:
	case old.keeps(next, p):
		next.all = slices.Clone(old.all)
	case old.Author.ID == author.ID():
		batch.DeleteRange(codeKey(old.name, ""), store.After(codeKey(old.name, "")))
	default:
		if p, err := s.opts.Find(old.Author.ID); err != nil || p != nil && p.Life().Err() == nil {
			return r, cmp.Or[error](err, message.Errorf(409, "%s belongs to %s, which registered it first; choose another name", old.name, old.Author))
		}
		batch.DeleteRange(codeKey(old.name, ""), store.After(codeKey(old.name, "")))
	}
	if old == nil && next.File == "" && s.names[author.ID()] >= s.opts.Names {
		return r, message.Errorf(429, "%s has registered %d scripts, and no more are allowed; remove some with Syscall.Unregister", author.Claim(), s.opts.Names)
	}
	v, known, err := next.version(p)
	if err != nil {
		return r, err
	}
	from := kernel.SenderOf(ctx)
	if known {
		r.Adopted = next.rescope(v, v.scopeFrom(from))
	} else {
		v.Scope = from.Scope()
		next.all = append(next.all, v)
	}
	if next.Weights, err = next.weigh(v.Version, p.weights); err != nil {
		return r, err
	}
	for len(next.all) > maxVersions {
		i := slices.IndexFunc(next.all, func(v *version) bool { return next.Weights[v.Version] == 0 })
		batch.Delete(codeKey(next.name, next.all[i].Version))
		next.all = slices.Delete(next.all, i, i+1)
	}
	added := v
	if known {
		added = nil
	}
	if err := next.save(&batch, added, p.code); err != nil {
		return r, err
	}
	r.Version = v.Version
	r.Commit, err = s.replace(old, next, author, &batch)
	return r, err
}

// A Registered is what a registration has come to.
type Registered struct {
	Version string
	Adopted bool          // the version was under the rules of a session, and is no more
	Commit  *store.Commit // to wait for
}

// version returns the version that prepared code becomes, and whether the script has it: the same code is
// the same version.
func (sc *script) version(p *Prepared) (v *version, known bool, err error) {
	for _, v := range slices.Backward(sc.all) {
		same := v.Hash == p.edition.Hash
		if v.Version == p.edition.Version && !same {
			return nil, false, message.Errorf(409, "Version %s of %s has other code; register this code as another version", v.Version, sc.name)
		}
		if same && (p.edition.Version == "" || v.Version == p.edition.Version) {
			return v, true, nil
		}
	}
	e := p.edition
	e.Registered = time.Now().UnixMilli()
	if e.Version == "" {
		e.Version = sc.nextVersion()
	}
	v = newVersion(sc.name, e)
	v.program = p.program
	return v, false, nil
}

// parseVersion returns a semantic version with all of its three numbers, or nil.
func parseVersion(text string) *semver.Version {
	v, err := semver.DefaultSystem.Parse(text)
	if err != nil || v.IsWildcard() || v.Canon(true) != text {
		return nil
	}
	return v
}

// nextVersion returns the version after the highest: 1.2.4 after 1.2.3, 1.2.3 after 1.2.3-rc.1.
func (sc *script) nextVersion() string {
	var highest *semver.Version
	for _, v := range sc.all {
		if one := parseVersion(v.Version); one != nil && (highest == nil || one.Compare(highest) > 0) {
			highest = one
		}
	}
	if highest == nil {
		return "1.0.0"
	}
	release, _, _ := strings.Cut(highest.Canon(false), "-")
	if highest.IsPrerelease() {
		return release
	}
	dot := strings.LastIndexByte(release, '.')
	patch, _ := strconv.ParseUint(release[dot+1:], 10, 64) // the parser has read it
	return release[:dot+1] + strconv.FormatUint(patch+1, 10)
}

// weigh returns the weights of versions: all for the one that is registered, unless some are given.
func (sc *script) weigh(registered string, given map[string]int) (map[string]int, error) {
	if len(given) == 0 {
		return map[string]int{registered: 1}, nil
	}
	var first *version
	weights := make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(sc.all, func(v *version) bool { return v.Version == name })
		switch weight := given[name]; {
		case i < 0:
			return nil, message.Invalid("weights", "weights: %s has no version %q; it has %s", sc.name, message.Clip(name, 64), sc.list())
		case weight < 0 || weight > maxWeight:
			return nil, message.Invalid("weights", "weights: expected a number from 0 to %d for %s, got %d", maxWeight, name, weight)
		case weight == 0:
			continue
		}
		v := sc.all[i]
		first = cmp.Or(first, v)
		if v.Kind != first.Kind || !sameSchema(v.Input, first.Input) || !sameSchema(v.Output, first.Output) {
			return nil, message.Invalid("weights", "weights: the versions %s and %s differ in kind, inputSchema or outputSchema, so that they can't share calls", first.Version, v.Version)
		}
		weights[name] = given[name]
	}
	if first == nil {
		return nil, message.Invalid("weights", "weights: expected one that is more than 0")
	}
	return weights, nil
}

func sameSchema(a, b jsontext.Value) bool {
	return bytes.Equal(jsonscan.AppendCanonical(nil, a), jsonscan.AppendCanonical(nil, b))
}

func (sc *script) list() string {
	names := make([]string, len(sc.all))
	for i, v := range sc.all {
		names[i] = v.Version
	}
	return strings.Join(names, ", ")
}

// replace puts a script in the place of another, or of none, in the registry and in the store. If
// the store fails, everything is as before. mu is held.
func (s *Scripts) replace(old, next *script, author *principal.Principal, b *store.Batch) (*store.Commit, error) {
	next.size = next.schemaSize()
	if err := s.opts.Schemas.Take(author, next.size); err != nil {
		return nil, err
	}
	next.holder = author
	var remove []message.Type
	if old != nil && !old.away {
		remove = []message.Type{old.name}
	}
	if _, err := s.registry.Change(remove, s.addition(next)); err != nil {
		s.drop(next)
		return nil, message.Errorf(409, "%s can't be registered: %v", next.name, err)
	}
	commit, err := s.apply(b)
	if err != nil {
		s.drop(next)
		if old == nil || old.away {
			s.registry.RemoveSyscall(next.name)
		} else if _, undo := s.registry.Change([]message.Type{next.name}, s.addition(old)); undo != nil {
			s.opts.Log.Error("the earlier version of a script can't be served again", "name", old.name, "error", undo)
		}
		return nil, err
	}
	s.swap(old, next)
	return commit, nil
}

func (s *Scripts) apply(b *store.Batch) (*store.Commit, error) {
	if s.opts.Store == nil {
		done := store.NewCommit(0)
		done.Resolve(nil)
		return done, nil
	}
	return s.opts.Store.Apply(b)
}

// Unregister removes a script for a caller, who must be its author or the owner. It reports whether
// there was one, and returns a commit to wait for.
func (s *Scripts) Unregister(caller *principal.Principal, t message.Type) (removed bool, commit *store.Commit, err error) {
	err = s.lock()
	defer s.mu.Unlock()
	sc := s.byName[t]
	if err != nil || sc == nil {
		return false, nil, err
	}
	if err := sc.mine(caller); err != nil {
		return false, nil, err
	}
	var b store.Batch
	b.Delete(headKey(t))
	b.DeleteRange(codeKey(t, ""), store.After(codeKey(t, "")))
	if commit, err = s.apply(&b); err != nil {
		return false, nil, err
	}
	s.registry.RemoveSyscall(t)
	s.swap(sc, nil)
	return true, commit, nil
}
