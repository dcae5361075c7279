package script

import (
	"context"
	"slices"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

type versionsInput struct {
	Name    string `json:"name" jsonschema:"example=Text.Count" jsonschema_description:"The syscall."`
	Version string `json:"version,omitempty" jsonschema_description:"Return only this version, with its code if the caller is its author or the owner."`
}

type versionsOutput struct {
	Name     string        `json:"name" jsonschema_description:"The syscall."`
	Author   string        `json:"author" jsonschema_description:"Who has registered it: owner, or the name of a token."`
	File     string        `json:"file,omitzero" jsonschema_description:"The file that it is registered from."`
	Versions []versionInfo `json:"versions" jsonschema_description:"Its versions, the newest first."`
}

type versionInfo struct {
	Version    string   `json:"version" jsonschema_description:"The version."`
	Weight     int      `json:"weight,omitzero" jsonschema_description:"Its part of the calls, beside the weights of the others; none if it isn't called."`
	Registered int64    `json:"registered" jsonschema_description:"When it was registered, in milliseconds since 1970."`
	Language   string   `json:"language" jsonschema_description:"ts, js or wasm."`
	Bytes      int      `json:"bytes" jsonschema_description:"The length of its code."`
	Calls      int64    `json:"calls" jsonschema_description:"How many calls have ended since the kernel started."`
	Failures   int64    `json:"failures" jsonschema_description:"How many of them ended with an error."`
	Mean       float64  `json:"meanMs" jsonschema_description:"How long a call took on average, in milliseconds."`
	Longest    float64  `json:"longestMs" jsonschema_description:"How long the longest call took, in milliseconds."`
	Sessions   []string `json:"sessions,omitzero" jsonschema_description:"The sessions that it came from: their rules decide about what it calls, until Syscall.Adopt."`
	Code       string   `json:"code,omitzero" jsonschema_description:"The code."`
}

var versions = kernel.DefineQuery[versionsInput, versionsOutput](kernel.Definition{
	Type:    "Syscall.Versions",
	Summary: "List the versions of a syscall that is code: which are called, how often, with which outcomes and how fast.",
	Presentation: kernel.Presentation{
		Title: "List versions of code",
		Words: "revisions of a script, how often called, versions of my tool, history of a function, source code of a tool, how often does my tool fail, " +
			"how fast is my function, earlier code of a script, show the code of a tool, older versions of the code",
		Arguments: []string{"name", "version"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the code belongs to another caller"},
			{Code: 404, When: "no code has this name, or this version"},
		},
	},
	Behavior: kernel.Behavior{Volatile: []string{"versions.calls", "versions.failures", "versions.*Ms"}},
})

func (s *Scripts) versions(ctx context.Context, in versionsInput) (versionsOutput, error) {
	err := s.lock()
	defer s.mu.Unlock()
	if err != nil {
		return versionsOutput{}, err
	}
	sc, err := s.lookup(in.Name)
	if err != nil {
		return versionsOutput{}, err
	}
	if caller := kernel.PrincipalOf(ctx); !caller.Sees(sc.Author.ID) {
		return versionsOutput{}, message.Errorf(403, "%s belongs to %s, who alone sees its versions", sc.name, sc.Author)
	}
	out := versionsOutput{Name: string(sc.name), Author: sc.Author.Name, File: sc.File, Versions: []versionInfo{}}
	for _, v := range slices.Backward(sc.all) {
		if in.Version != "" && v.Version != in.Version {
			continue
		}
		info := versionInfo{
			Version: v.Version, Weight: sc.Weights[v.Version], Registered: v.Registered, Language: v.Language, Bytes: v.Bytes,
			Calls: v.calls.Load(), Failures: v.failures.Load(), Longest: milliseconds(time.Duration(v.longest.Load())),
			Sessions: v.sessions(),
		}
		if info.Calls > 0 {
			info.Mean = milliseconds(time.Duration(v.total.Load() / info.Calls))
		}
		if in.Version != "" && sc.mine(kernel.PrincipalOf(ctx)) == nil {
			if info.Code, err = s.code(sc.name, v); err != nil {
				return out, err
			}
		}
		out.Versions = append(out.Versions, info)
	}
	if in.Version != "" && len(out.Versions) == 0 {
		return out, message.Errorf(404, "%s has no version %s; it has %s", sc.name, message.Clip(in.Version, 64), sc.list())
	}
	return out, nil
}

// milliseconds are rounded to microseconds.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type rollbackInput struct {
	Name    string `json:"name" jsonschema:"example=Text.Count" jsonschema_description:"The syscall."`
	Version string `json:"version,omitempty" jsonschema_description:"The version to go back to. Default: the one before the newest that is called."`
}

type rollbackOutput struct {
	Name    string `json:"name" jsonschema_description:"The syscall."`
	Version string `json:"version" jsonschema_description:"The version that is called now."`
}

var rollback = kernel.DefineCommand[rollbackInput, rollbackOutput](kernel.Definition{
	Type:    "Syscall.Rollback",
	Summary: "Go back to an earlier version of a syscall that is code. Calls that have begun are finished by the version that they began with.",
	Emits:   []kernel.EventDefinition{{Type: reverted, Summary: "A syscall that is code has gone back to an earlier version: {name, version}."}},
	Presentation: kernel.Presentation{
		Title: "Go back to earlier code",
		Words: "revert, undo, downgrade, the new code is broken, undo a deployment, my tool worked before, previous version of a tool, " +
			"switch to older code, the last change broke my function",
		Result:    "{name} has the version {version} again",
		Arguments: []string{"name", "version"}, Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the syscall belongs to another caller"},
			{Code: 404, When: "no code has this name, or this version"},
			{Code: 409, When: "there is no earlier version"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToCode}},
})

// reverted is the event about a rollback.
const reverted message.Type = "Syscall.Reverted"

func (s *Scripts) rollback(ctx context.Context, in rollbackInput) (rollbackOutput, error) {
	version, commit, err := s.goBack(ctx, in)
	if err == nil {
		err = commit.Wait(ctx)
	}
	if err != nil {
		return rollbackOutput{}, err
	}
	out := rollbackOutput{Name: in.Name, Version: version}
	return out, kernel.Publish(ctx, reverted, Announcement(message.Type(in.Name), version))
}

func (s *Scripts) goBack(ctx context.Context, in rollbackInput) (to string, commit *store.Commit, err error) {
	err = s.lock()
	defer s.mu.Unlock()
	if err != nil {
		return "", nil, err
	}
	old, err := s.lookup(in.Name)
	if err == nil {
		err = old.mine(kernel.PrincipalOf(ctx))
	}
	if err != nil {
		return "", nil, err
	}
	if old.away {
		return "", nil, message.Errorf(409, "%s isn't served, since its folder isn't a part of os:// now; a call of it reports what brings it back", old.name)
	}
	newest := old.split().current()
	i := slices.Index(old.all, newest) - 1
	if in.Version != "" {
		i = slices.IndexFunc(old.all, func(v *version) bool { return v.Version == in.Version })
	}
	switch {
	case in.Version != "" && i < 0:
		return "", nil, message.Errorf(404, "%s has no version %s; it has %s", old.name, message.Clip(in.Version, 64), old.list())
	case i < 0:
		return "", nil, message.Errorf(409, "%s has no version before %s", old.name, newest.Version)
	}
	next := old.changed()
	next.Weights = map[string]int{old.all[i].Version: 1}
	commit, err = s.put(old, next)
	return old.all[i].Version, commit, err
}

// changed returns a copy of a script that is to be changed, and put in its place.
func (sc *script) changed() *script {
	return &script{name: sc.name, head: sc.head, all: slices.Clone(sc.all)}
}

// put puts a script in the place of another one that has the same code. mu is held.
func (s *Scripts) put(old, next *script) (*store.Commit, error) {
	author, err := s.opts.Find(old.Author.ID)
	if err != nil {
		return nil, err
	}
	if author == nil {
		return nil, message.Errorf(409, "%s belongs to %s, which was revoked; its code is no longer called", old.name, old.Author)
	}
	var b store.Batch
	if err := next.save(&b, nil, ""); err != nil {
		return nil, err
	}
	return s.replace(old, next, author, &b)
}
