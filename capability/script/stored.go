package script

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/script/engine"
	"kernos/internal/jsonscan"
	"kernos/internal/when"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// In the store, a script is a head, which has all that a definition needs, and the code of each
// version under a key of its own, which is read when it is first called. Both change in one batch.

// The letters after that of the keyspace.
const (
	headLetter = 'h' // name
	codeLetter = 'c' // name, 0, version
)

func headKey(t message.Type) []byte {
	return append([]byte{store.SpaceScripts, headLetter}, t...)
}

func codeKey(t message.Type, version string) []byte {
	return append(append(append([]byte{store.SpaceScripts, codeLetter}, t...), 0), version...)
}

// A head is what is stored of a script beside its code.
type head struct {
	Author   principal.Claim `json:"author"`
	File     string          `json:"file,omitzero"`   // the URI of the file that the script is registered from
	Folder   string          `json:"folder,omitzero"` // the directory whose files are at the root, or in the mount, that has the file; "" before version 0.19.0
	Weights  map[string]int  `json:"weights"`         // weights of the versions that are called
	Editions []edition       `json:"versions"`        // the oldest first
}

// An edition is a version without its code.
type edition struct {
	Version      string              `json:"version"`
	Kind         message.Kind        `json:"kind"`
	Description  string              `json:"description"`
	Presentation kernel.Presentation `json:"presentation,omitzero"`
	Input        jsontext.Value      `json:"input"`
	Output       jsontext.Value      `json:"output"`
	Emits        []Event             `json:"emits,omitzero"`
	Language     string              `json:"language"`
	Limits       Limits              `json:"limits,omitzero"`
	SafeToRepeat bool                `json:"safeToRepeat,omitzero"`
	Registered   int64               `json:"registered"` // milliseconds since 1970
	Bytes        int                 `json:"bytes"`      // bytes of code
	Hash         string              `json:"hash"`       // hash of everything but the version, the time and the scope

	// Scope is the scope of the sender that registered the code, see [kernel.Sender.Scope]: the rules of these
	// sessions decide about what it calls, until its author or the owner adopts it.
	Scope string `json:"scope,omitzero"`
}

// An Event is an event that code emits.
type Event struct {
	Type        string `json:"type" jsonschema_description:"The event's type: Domain.Action, in the past tense."`
	Description string `json:"description,omitempty" jsonschema:"maxLength=1024" jsonschema_description:"What the event means."`
}

// Limits are the limits of one call of code.
type Limits struct {
	Time   when.Span `json:"time,omitzero" jsonschema:"minimum=1,maximum=300000" jsonschema_description:"How long a call may take, in milliseconds, or as a text such as 90s. Default: 5000, and in a job the timeout that Job.Start was given."`
	Memory int64     `json:"memory,omitzero" jsonschema:"minimum=1048576,maximum=268435456" jsonschema_description:"How many bytes a call may use. Default: 64 MB."`
	Calls  int       `json:"calls,omitzero" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"How many syscalls a call may call. Default: 1000."`
	Output int64     `json:"output,omitzero" jsonschema:"minimum=1,maximum=16777216" jsonschema_description:"How many bytes the reply and the events may have. Default: 1 MB."`
	Log    int64     `json:"log,omitzero" jsonschema:"minimum=1,maximum=1048576" jsonschema_description:"How many bytes a call may log. Default: 64 KB."`
}

const defaultTime = 5 * time.Second

func (l Limits) duration() time.Duration {
	return cmp.Or(l.Time.Duration(), defaultTime)
}

// within returns the limits of a call that was given some time, or none if that is 0. It takes the place of the default.
func (l Limits) within(asked time.Duration) Limits {
	if l.Time == 0 {
		l.Time = when.Span(asked.Milliseconds())
	}
	return l
}

func (l Limits) engine() engine.Limits {
	return engine.Limits{Time: l.duration(), Memory: l.Memory, Calls: l.Calls, Output: l.Output, Log: l.Log}
}

// fingerprint returns a text that differs between editions which do different things.
func (e edition) fingerprint(code string) (string, error) {
	e.Version, e.Registered, e.Hash, e.Scope = "", 0, "", ""
	e.Input, e.Output = jsonscan.AppendCanonical(nil, e.Input), jsonscan.AppendCanonical(nil, e.Output)
	text, err := json.Marshal(&e, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(text, code...))
	return hex.EncodeToString(sum[:16]), nil
}

// failures are what all code may fail with, beside the errors that it throws.
var failures = []kernel.ErrorDefinition{
	{Code: 413, When: "its code uses more memory, output or log than its limits"},
	{Code: 429, When: "its code calls more syscalls than its limits"},
	{Code: 500, When: "its code has failed; the message names the line"},
	{Code: 502, When: "what its code returns breaks the output schema"},
}

// stopTime is how much later than the time limit of its code a call ends. The engine has stopped the code by then, and
// answers with the line that the code was in.
const stopTime = time.Second

// newVersion makes a version of a script from an edition.
func newVersion(t message.Type, e edition) *version {
	shown := e.Presentation
	shown.Errors = failures
	d := kernel.Definition{
		Type:         t,
		Kind:         e.Kind,
		Summary:      e.Description,
		Input:        parsed(e.Input),
		Output:       parsed(e.Output),
		Presentation: shown,
		Behavior: kernel.Behavior{
			Repeat:  kernel.RetriedIf(e.SafeToRepeat),
			Runs:    kernel.Slow,
			Effect:  kernel.External,
			Timeout: e.Limits.duration() + stopTime,
		},
	}
	for _, event := range e.Emits {
		d.Emits = append(d.Emits, kernel.EventDefinition{Type: message.Type(event.Type), Summary: event.Description})
	}
	return &version{edition: e, definition: d}
}

func decodeScript(e store.Entry) (*script, error) {
	sc := &script{name: message.Type(e.Key[2:])}
	if err := json.Unmarshal(e.Value, &sc.head); err != nil {
		return nil, fmt.Errorf("it was written by a newer version, or is damaged: %w", err)
	}
	for _, e := range sc.Editions {
		sc.all = append(sc.all, newVersion(sc.name, e))
	}
	sc.size = sc.schemaSize()
	if len(sc.split().versions) == 0 {
		return nil, fmt.Errorf("none of its versions is called")
	}
	return sc, nil
}

// schemaSize is about how many bytes the schemas take when they are compiled: 150 KB were
// measured for 10 KB of text.
func (sc *script) schemaSize() int {
	now := sc.split().versions
	if len(now) == 0 {
		return 0
	}
	return 16 * (len(now[0].Input) + len(now[0].Output))
}

// save adds a script to a batch, and the code of a version if it is new.
func (sc *script) save(b *store.Batch, added *version, code string) error {
	sc.Editions = nil
	for _, v := range sc.all {
		sc.Editions = append(sc.Editions, v.edition)
	}
	text, err := json.Marshal(&sc.head, json.Deterministic(true))
	if err != nil {
		return err
	}
	b.Set(headKey(sc.name), text)
	if added != nil {
		b.Set(codeKey(sc.name, added.Version), []byte(code))
	}
	return nil
}

// code reads the code of a version.
func (s *Scripts) code(t message.Type, v *version) (string, error) {
	if s.opts.Store == nil {
		return "", fmt.Errorf("the code of %s %s isn't in memory", t, v.Version)
	}
	e, err := s.opts.Store.Get(codeKey(t, v.Version))
	if err == nil && e.Revision == 0 {
		err = message.Errorf(404, "Version %s of %s was removed meanwhile; call it again", v.Version, t)
	}
	return string(e.Value), err
}
