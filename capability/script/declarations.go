package script

import (
	_ "embed" // for what a handler has
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

//go:embed handler.d.ts
var handlerTypes string

// A Described is a syscall as Syscall.Describe describes it.
type Described struct {
	Name    message.Type    `json:"name"`
	Kind    message.Kind    `json:"kind"`
	Summary string          `json:"summary"`
	Input   json.RawMessage `json:"input"`
	Output  json.RawMessage `json:"output"`

	Sessions []string `json:"sessions"`
}

// Types returns declarations in TypeScript of what the code of a syscall has, with these syscalls.
func Types(syscalls []Described) string {
	var b strings.Builder
	b.WriteString(handlerTypes)
	b.WriteString("\ninterface KernosSyscalls {\n")
	for _, s := range syscalls {
		about := s.Summary
		if len(s.Sessions) > 0 {
			about += fmt.Sprintf(" Under the rules of the session %s, which its code came from; kernos register --adopt %s ends that.", strings.Join(s.Sessions, " and of "), s.Name)
		}
		fmt.Fprintf(&b, "  %s\n  %q: {\n    kind: %q;\n    input: %s;\n    output: %s;\n  };\n", schema.Comment(about), s.Name, s.Kind,
			schema.TypeScript(s.Input, "    "), schema.TypeScript(kernel.WithoutReference(s.Output), "    "))
	}
	b.WriteString("}\n")
	return b.String()
}

// CompilerOptions returns the arguments with which tsc checks code against declarations in a file; the files of the code follow.
// The types of Node that may be installed nearby aren't those of a handler, so packages are looked for where there are none.
func CompilerOptions(declared string) []string {
	return []string{"--noEmit", "--strict", "--target", "es2023", "--lib", "es2023", "--module", "esnext", "--moduleResolution", "bundler",
		"--typeRoots", filepath.Join(filepath.Dir(declared), "none"), declared}
}
