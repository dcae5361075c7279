package script

import (
	"context"
	_ "embed" // for what a handler has
	"fmt"
	"path/filepath"
	"strings"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/schema"
)

//go:embed handler.d.ts
var handlerTypes string

type typesOutput struct {
	Declarations string `json:"declarations" jsonschema_description:"The declarations, for a file such as kernos.d.ts beside the code."`
	kernel.Narrowed
}

var types = kernel.DefineQuery[struct{}, typesOutput](kernel.Definition{
	Type:         "Syscall.Types",
	Summary:      "Declare in TypeScript what the code of a syscall has: kernos.call with the types of all syscalls that the caller may call, fetch, console and the rest.",
	Presentation: kernel.Presentation{Title: "Declare syscalls in TypeScript", Words: "d.ts, typings, types for an editor, type definitions, typescript types, autocomplete, declaration file, types of all syscalls"},
	Journaled:    kernel.Journaled{Recording: kernel.InWorkflows, Answers: kernel.FromJournal},
})

func (s *Scripts) types(ctx context.Context, _ struct{}) (typesOutput, error) {
	caller := kernel.PrincipalOf(ctx)
	var b strings.Builder
	b.WriteString(handlerTypes)
	b.WriteString("\ninterface KernosSyscalls {\n")
	for _, t := range s.registry.For(caller).Types() {
		one, ok := s.registry.Lookup(t)
		if !ok {
			continue // it has gone meanwhile
		}
		about := one.Summary
		if len(one.Sessions) > 0 && caller.Sees(one.Author.ID) {
			about += fmt.Sprintf(" Under the rules of the session %s, which its code came from; kernos register --adopt %s ends that.", strings.Join(one.Sessions, " and of "), t)
		}
		fmt.Fprintf(&b, "  %s\n  %q: {\n    kind: %q;\n    input: %s;\n    output: %s;\n  };\n", schema.Comment(about), t, one.Kind,
			schema.TypeScript(one.Input.JSON(), "    "), schema.TypeScript(one.Output.JSON(), "    "))
	}
	b.WriteString("}\n")
	return typesOutput{b.String(), kernel.Narrow(ctx, (*principal.Principal).IsOwner)}, nil
}

// CompilerOptions returns the arguments with which tsc checks code against declarations in a file; the files of the code follow.
// The types of Node that may be installed nearby aren't those of a handler, so packages are looked for where there are none.
func CompilerOptions(declared string) []string {
	return []string{"--noEmit", "--strict", "--target", "es2023", "--lib", "es2023", "--module", "esnext", "--moduleResolution", "bundler",
		"--typeRoots", filepath.Join(filepath.Dir(declared), "none"), declared}
}
