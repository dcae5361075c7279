package script

import (
	"context"
	"slices"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

type adoptInput struct {
	Name    string `json:"name" jsonschema:"example=Text.Count" jsonschema_description:"The syscall."`
	Version string `json:"version,omitempty" jsonschema_description:"Adopt only this version. Default: all versions that are called."`
}

type adoptOutput struct {
	Name     string   `json:"name" jsonschema_description:"The syscall."`
	Versions []string `json:"versions" jsonschema_description:"The versions that were under the rules of a session, and are no more."`
}

var adopt = kernel.DefineCommand[adoptInput, adoptOutput](kernel.Definition{
	Type:    "Syscall.Adopt",
	Summary: "Take code that was registered in a session out of the rules of that session: from now on it may do what its caller and its author may do. Read it first: Syscall.Versions with a version returns its code.",
	Emits:   []kernel.EventDefinition{AdoptedEvent},
	Presentation: kernel.Presentation{
		Title: "Adopt code of a session",
		Words: "trust code, take over, accept code that an assistant wrote, lift the limits of code, approve generated code, " +
			"let an agent's tool run freely, keep the tool that the assistant made",
		Result:    "Adopted {name} ({versions})",
		Arguments: []string{"name", "version"}, Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "a session has caused the request, or the syscall belongs to another caller"},
			{Code: 404, When: "no code has this name, or this version"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToCode}, Repeat: kernel.Idempotent},
})

// Adopted is the type of the event about an adoption.
const Adopted message.Type = "Syscall.Adopted"

// AdoptedEvent is that event, which Syscall.Register emits too: its author adopts code by registering it again.
var AdoptedEvent = kernel.EventDefinition{Type: Adopted, Summary: "Code is no longer under the rules of the session that it came from: {name, version}."}

func (s *Scripts) adopt(ctx context.Context, in adoptInput) (adoptOutput, error) {
	versions, commit, err := s.release(ctx, in)
	if err == nil && commit != nil {
		err = commit.Wait(ctx)
	}
	for _, version := range versions {
		if err == nil {
			err = kernel.Publish(ctx, Adopted, Announcement(message.Type(in.Name), version))
		}
	}
	return adoptOutput{in.Name, versions}, err
}

// release takes versions out of the rules of their sessions. The commit is nil if none was under any.
func (s *Scripts) release(ctx context.Context, in adoptInput) (versions []string, commit *store.Commit, err error) {
	versions = []string{}
	from := kernel.SenderOf(ctx)
	if from.Scope() != "" {
		return versions, nil, message.Errorf(403, "The session %s may not adopt code, whatever its rules allow; the author of %s or the owner can, outside of sessions: kernos register --adopt %s", from.Session(), message.Clip(in.Name, 100), message.Clip(in.Name, 100))
	}
	err = s.lock()
	defer s.mu.Unlock()
	if err != nil {
		return versions, nil, err
	}
	old, err := s.lookup(in.Name)
	if err == nil {
		err = old.mine(from.Principal())
	}
	if err != nil {
		return versions, nil, err
	}
	if refusal := from.Principal().RegistersCode(old.name); refusal != nil {
		return versions, nil, refusal
	}
	next, found := old.changed(), false
	for _, v := range old.all {
		if in.Version == "" && old.Weights[v.Version] == 0 || in.Version != "" && v.Version != in.Version {
			continue
		}
		found = true
		if next.rescope(v, "") {
			versions = append(versions, v.Version)
		}
	}
	switch {
	case !found:
		return versions, nil, message.Errorf(404, "%s has no version %s; it has %s", old.name, message.Clip(in.Version, 64), old.list())
	case len(versions) == 0:
		return versions, nil, nil
	}
	commit, err = s.put(old, next)
	return versions, commit, err
}

// scopeFrom returns the scope of a version whose code a sender registers again. Outside of sessions its author
// adopts it. A session changes nothing about code that is under no rules, and adds its rules to other code.
func (v *version) scopeFrom(from kernel.Sender) string {
	if v.Scope == "" || from.Scope() == "" {
		return ""
	}
	return kernel.Sender{}.In(v.Scope).In(from.Scope()).Scope()
}

// sessions returns the sessions whose rules decide about what the version calls.
func (v *version) sessions() []string { return kernel.Sender{}.In(v.Scope).Sessions() }

// rescope gives a version another scope: another version takes its place, and calls that have begun are finished
// under the rules that they began with. It reports whether the version was adopted.
func (sc *script) rescope(v *version, scope string) (adopted bool) {
	if v.Scope == scope {
		return false
	}
	e := v.edition
	e.Scope = scope
	changed := newVersion(sc.name, e)
	v.mu.Lock()
	changed.program = v.program
	v.mu.Unlock()
	changed.calls.Store(v.calls.Load())
	changed.failures.Store(v.failures.Load())
	changed.total.Store(v.total.Load())
	changed.longest.Store(v.longest.Load())
	sc.all[slices.Index(sc.all, v)] = changed
	return scope == ""
}
