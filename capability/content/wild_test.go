package content

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"kernos/capability/vfs"
	"kernos/capability/vfs/dirfs"
	"kernos/capability/vfs/vfstest"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// wild returns the agents of testdata/wild, which are written as agents for many hosts are, in
// a kernel that has some syscalls.
func wild(t *testing.T) *Content {
	t.Helper()
	driver, err := dirfs.Open("testdata/wild", dirfs.Options{ReadOnly: true, Programs: true})
	if err != nil {
		t.Fatal(err)
	}
	files := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: driver}}})
	return New(tree{files}, &Options{Registry: syscalls(t)})
}

// syscalls returns a registry with the syscalls that the agents name.
func syscalls(t *testing.T) *kernel.Registry {
	t.Helper()
	m := kernel.Module{Name: "some", Version: "1.0.0", Summary: "Some syscalls."}
	nothing := func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil }
	for _, name := range []string{"Memory.Get", "Memory.Set", "Content.Hydrate", "Http.Fetch", "Ping"} {
		m.Syscalls = append(m.Syscalls, kernel.Query(kernel.Definition{Type: message.Type(name), Summary: "Summary of " + name + "."}, nothing))
	}
	return kerneltest.Of(t, nil, m).Registry()
}

func TestAgentsInTheWildHaveNoFalseProblems(t *testing.T) {
	c := wild(t)
	out, err := c.index(t.Context(), indexInput{URI: "os://"})
	if err != nil || out.Skipped != 0 {
		t.Fatalf("%v, %d skipped", err, out.Skipped)
	}
	agents := 0
	var problems []string
	for _, e := range out.Entries {
		if e.Kind == kindAgent {
			agents++
		}
		for _, p := range e.Problems {
			words := strings.Fields(p)
			problems = append(problems, fmt.Sprint(e.URI, " ", words[0], " ", words[1]))
		}
	}
	if agents < 60 {
		t.Errorf("%d agents, want at least 60", agents)
	}
	real := []string{
		"os://broken/agents/bad-condition.md INVALID_CONDITION: skills_if",
		"os://broken/agents/malformed.md MALFORMED_YAML: other",
		"os://broken/agents/missing-bare-file.md MISSING_DEPENDENCY: os://broken/agents/analyze.py",
		"os://broken/agents/missing-beside-others.md MISSING_DEPENDENCY: os://broken/agents/bin/deploy",
		"os://broken/agents/missing-script.md MISSING_DEPENDENCY: os://broken/agents/scripts/lint.sh",
		"os://broken/agents/missing-skill.md MISSING_DEPENDENCY: os://broken/skills/gone.md",
		"os://broken/agents/missing-skill.md MISSING_DEPENDENCY: os://skills/none/SKILL.md",
		"os://broken/agents/wrong-scheme.md UNSUPPORTED_SCHEME: file:///usr/bin/env",
		"os://broken/agents/wrong-scheme.md UNSUPPORTED_SCHEME: javascript:alert(1)",
		"os://broken/agents/wrong-version.md NO_MATCHING_VERSION: os://broken/agents/spelling@^3.0.0",
		"os://claude/.claude/agents/skill-list.md MISSING_DEPENDENCY: os://claude/.claude/agents/error-handling",
		"os://claude/.claude/agents/skilled.md UNSUPPORTED_SCHEME: document-skills:xlsx",
		"os://claude/.claude/agents/skilled.md UNSUPPORTED_SCHEME: superpowers:brainstorming",
	}
	// Tools of other hosts with slashes in their names are missing files.
	problems = slices.DeleteFunc(problems, func(p string) bool {
		return strings.HasPrefix(p, "os://copilot/") || strings.HasPrefix(p, "os://npm/")
	})
	if !slices.Equal(problems, real) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(problems, "\n"), strings.Join(real, "\n"))
	}
}

func TestAgentsInTheWildHydrate(t *testing.T) {
	c := wild(t)
	err := fs.WalkDir(os.DirFS("testdata/wild"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") || strings.HasPrefix(path, "broken/") || path == "kernos/agents/remote.md" {
			return err
		}
		text := string(hydration(t.Context(), c, "os://"+path))
		for _, other := range []string{ // what only the hosts of these agents have
			`/error-handling","name":"ERROR: FETCH_FAILED","description":"ERROR: FETCH_FAILED"`, `:xlsx","name":"ERROR: UNSUPPORTED_SCHEME","description":"ERROR: UNSUPPORTED_SCHEME"`,
			`:brainstorming","name":"ERROR: UNSUPPORTED_SCHEME","description":"ERROR: UNSUPPORTED_SCHEME"`,
		} {
			text = strings.ReplaceAll(text, other, "")
		}
		if strings.HasPrefix(path, "copilot/") || strings.HasPrefix(path, "npm/") { // their tools have slashes
			text = strings.ReplaceAll(text, `"description":"ERROR: NOT_FOUND"`, "")
		}
		if strings.Contains(text, "ERROR:") {
			t.Errorf("%s: %s", path, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	none := `"description":"` + foreign + `"`
	for uri, parts := range map[string][]string{
		"os://kernos/agents/keeper.md": {
			`{"uri":"Content.Hydrate","description":"Summary of Content.Hydrate."}`, `{"uri":"Http.Fetch","description"`, `{"uri":"Memory.Get","description"`,
			`{"uri":"Memory.Set","description"`, `{"uri":"Ping","description"`, `"os://kernos/skills/grammar@1.2.7.md","name":"grammar"`, `"os://kernos/skills/notes.md"`,
		},
		"os://kernos/agents/deployer.md": {`"tools":[{"uri":"os://kernos/tools/deploy.sh","description":"Deploys"}]`},
		"os://claude/.claude/agents/skilled.md": {
			`"uri":"os://claude/.claude/skills/web-search/2.3.1/SKILL.md"`, `"uri":"os://claude/.claude/skills/pdf/SKILL.md"`,
			`{"uri":"Read",` + none,
		},
		"os://claude/.claude/agents/committer.md": {`{"uri":"Bash(git add:*, git commit:*)",` + none},
		"os://opencode/.opencode/agents/docs.md":  {`"tools":[{"uri":"mcp_*",` + none + `},{"uri":"webfetch",` + none + `}]`},
	} {
		text := string(hydration(t.Context(), c, uri))
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s has no %s: %s", uri, part, text)
			}
		}
	}
}
