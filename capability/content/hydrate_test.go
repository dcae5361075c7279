package content

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

const writer = "---\nskills:\n  - os://skills/grammar.md\n---\nYou write."

// The six tests of the specification.
func TestSpecification(t *testing.T) {
	files, _ := directory(t, map[string]string{
		"agents/test-agent.md":        "---\nskills:\n  - os://skills/test-skill.md\n---\nTest agent content",
		"skills/test-skill.md":        "---\nname: Test Skill\ndescription: A test skill for validation\nskills: []\ntools: []\n---\nSkill content",
		"test/agent-broken-skill.md":  "---\nskills:\n  - os://skills/no-name.md\n---\nAgent content",
		"skills/no-name.md":           "---\ndescription: Missing name field\n---\n",
		"test/agent-missing-skill.md": "---\nskills:\n  - os://skills/does-not-exist.md\n---\nAgent content",
		"agents/agent-with-tools.md":  "---\ntools:\n  - ./mock-tool.sh\n---\nAgent content",
		"agents/mock-tool.sh":         "#!/bin/bash\nif [[ \"$1\" == \"--description\" ]]; then\n  echo \"Mock tool for testing\"\nfi\n",
		"agents/multi-level.md":       "---\nskills:\n  - os://skills/level-1.md\n---\nAgent content",
		"skills/level-1.md":           "---\nname: Level 1 Skill\ndescription: Has transitive dependency\nskills:\n  - os://skills/level-2.md\n---\n",
		"skills/level-2.md":           "---\nname: Level 2 Skill\ndescription: Transitive dependency\n---\n",
	})
	c := New(files, nil)
	for range 2 { // T2: the same again
		want(t, c, "os://agents/test-agent.md", `{"content":"Test agent content","metadata":{"uri":"os://agents/test-agent.md","dependencies":{"skills":[{"uri":"os://skills/test-skill.md","name":"Test Skill","description":"A test skill for validation","skills":[],"tools":[]}],"tools":[]}}}`)
		want(t, c, "os://test/agent-broken-skill.md", `{"content":"Agent content","metadata":{"uri":"os://test/agent-broken-skill.md","dependencies":{"skills":[{"uri":"os://skills/no-name.md","name":"ERROR: MISSING_NAME","description":"Missing name field","skills":[],"tools":[]}],"tools":[]}}}`)
		want(t, c, "os://test/agent-missing-skill.md", `{"content":"Agent content","metadata":{"uri":"os://test/agent-missing-skill.md","dependencies":{"skills":[{"uri":"os://skills/does-not-exist.md","name":"ERROR: FETCH_FAILED","description":"ERROR: FETCH_FAILED","skills":[],"tools":[]}],"tools":[]}}}`)
		want(t, c, "os://agents/agent-with-tools.md", `{"content":"Agent content","metadata":{"uri":"os://agents/agent-with-tools.md","dependencies":{"skills":[],"tools":[{"uri":"os://agents/mock-tool.sh","description":"Mock tool for testing"}]}}}`)
		want(t, c, "os://agents/multi-level.md", `{"content":"Agent content","metadata":{"uri":"os://agents/multi-level.md","dependencies":{"skills":[{"uri":"os://skills/level-1.md","name":"Level 1 Skill","description":"Has transitive dependency","skills":["os://skills/level-2.md"],"tools":[]}],"tools":[]}}}`)
	}
}

func TestSoftErrorsOfAResource(t *testing.T) {
	c := New(newShelf(t, map[string]string{
		"garbled.md": "---\nskills: [a\n---\nText \"é\"\r\n",
		"latin.md":   "---\nname: A\n---\n\xe9",
		"open.md":    "---\nname: A\nText",
	}), nil)
	output := func(content, uri string) string {
		return fmt.Sprintf(`{"content":%s,"metadata":{"uri":%q,"dependencies":{"skills":[],"tools":[]}}}`, content, uri)
	}
	for _, test := range []struct{ uri, content, problem string }{
		{"os://absent.md", `""`, "ERROR: FETCH_FAILED"},
		{"os://a\\b.md", `""`, "ERROR: FETCH_FAILED"},
		{"os://%2e%2e/a.md", `""`, "ERROR: FETCH_FAILED"},
		{" ", `""`, "ERROR: FETCH_FAILED"},
		{"https://example.com/a.md", `""`, "ERROR: FETCH_FAILED"},
		{"file:///etc/passwd", `""`, "ERROR: UNSUPPORTED_SCHEME"},
		{"http://example.com/a.md", `""`, "ERROR: UNSUPPORTED_SCHEME"},
		{"JavaScript:alert(1)", `""`, "ERROR: UNSUPPORTED_SCHEME"},
		{"data:text/plain,a", `""`, "ERROR: UNSUPPORTED_SCHEME"},
		{"os://garbled.md", `"---\nskills: [a\n---\nText \"é\"\r\n"`, "ERROR: PARSE_ERROR"},
		{"os://latin.md", `"---\nname: A\n---\n` + "\uFFFD" + `"`, "ERROR: PARSE_ERROR"},
		{"os://open.md", `"---\nname: A\nText"`, "ERROR: PARSE_ERROR"},
	} {
		want(t, c, test.uri, output(test.content, test.problem))
	}
}

func TestDependenciesAreResolvedSortedAndListedOnce(t *testing.T) {
	c := New(newShelf(t, map[string]string{
		"agents/lead.md":  "---\nskills: [../skills/b.md, os:///skills/a.md, /skills/b.md, os://skills/./a.md, 'file:///etc/passwd', 'a\\b', '']\ntools: [gopher://x, ./t.sh, t.sh]\n---\n",
		"agents/other.md": "---\ntools: [t.sh, ./t.sh, gopher://x]\nskills: ['', 'a\\b', os://skills/a.md, 'file:///etc/passwd', os://skills/b.md]\n---\n",
		"skills/a.md":     "---\nname: A\ndescription: a\nskills: [../x.md, ./x.md, ../x.md]\ntools: y\n---\n",
		"skills/b.md":     "---\nname: \"open\n---\n",
		"agents/t.sh":     "#!/bin/sh\n",
	}), nil)
	text := `{"content":"","metadata":{"uri":"os://agents/lead.md","dependencies":{"skills":[` +
		`{"uri":"","name":"ERROR: FETCH_FAILED","description":"ERROR: FETCH_FAILED","skills":[],"tools":[]},` +
		`{"uri":"a\\b","name":"ERROR: FETCH_FAILED","description":"ERROR: FETCH_FAILED","skills":[],"tools":[]},` +
		`{"uri":"file:///etc/passwd","name":"ERROR: UNSUPPORTED_SCHEME","description":"ERROR: UNSUPPORTED_SCHEME","skills":[],"tools":[]},` +
		`{"uri":"os://skills/a.md","name":"A","description":"a","skills":["../x.md","./x.md","../x.md"],"tools":["y"]},` +
		`{"uri":"os://skills/b.md","name":"ERROR: PARSE_ERROR","description":"ERROR: PARSE_ERROR","skills":[],"tools":[]}],` +
		`"tools":[{"uri":"gopher://x","description":"ERROR: UNSUPPORTED_SCHEME"},{"uri":"os://agents/t.sh","description":"ERROR: EXECUTION_SKIPPED"}]}}}`
	want(t, c, "os://agents/lead.md", text)
	want(t, c, "agents/lead.md", text)
	// The order in which they are declared does not matter.
	want(t, c, "os://agents/other.md", strings.ReplaceAll(text, "agents/lead", "agents/other"))
}

// Clauses: H20-10.4-1 H20-10.4-2
func TestMoreThanAThousandDependencies(t *testing.T) {
	const n = 1300
	files := make(map[string]string)
	var up, down []string
	for i := range n {
		files[fmt.Sprintf("skills/%04d.md", i)] = fmt.Sprintf("---\nname: S%d\ndescription: d\n---\n", i)
		up = append(up, fmt.Sprintf("os://skills/%04d.md", i))
	}
	down = slices.Clone(up)
	slices.Reverse(down)
	files["up.md"] = "---\nskills: [" + strings.Join(up, ",") + "]\ntools: [gopher://a]\n---\n"
	files["down.md"] = "---\nskills: [" + strings.Join(down, ",") + "]\ntools: [gopher://a]\n---\n"
	files["full.md"] = "---\nskills: [" + strings.Join(up[:999], ",") + "]\ntools: [gopher://a]\n---\n"
	files["tools.md"] = "---\nskills: [" + strings.Join(up[:999], ",") + "]\ntools: [gopher://a, gopher://b]\n---\n"
	c := New(newShelf(t, files), nil)

	out := hydrated(t, c, "os://up.md").Metadata.Dependencies
	if len(out.Skills) != maxDependencies+1 || len(out.Tools) != 1 {
		t.Fatalf("%d skills and %d tools", len(out.Skills), len(out.Tools))
	}
	cut := skill{URI: "ERROR: TOO_MANY_DEPENDENCIES", Name: "ERROR: TOO_MANY_DEPENDENCIES", Description: "ERROR: TOO_MANY_DEPENDENCIES"}
	if first := out.Skills[0]; first.URI != cut.URI || first.Name != cut.Name || first.Description != cut.Description || first.Skills == nil {
		t.Errorf("the first skill is %+v", first)
	}
	if last := out.Skills[maxDependencies]; last.Name != "S999" {
		t.Errorf("the last skill is %+v", last)
	}
	if out.Tools[0] != (tool{URI: "ERROR: TOO_MANY_DEPENDENCIES", Description: "ERROR: TOO_MANY_DEPENDENCIES"}) {
		t.Errorf("the tools are %+v", out.Tools)
	}
	if !slices.IsSortedFunc(out.Skills, func(a, b skill) int { return strings.Compare(a.URI, b.URI) }) {
		t.Error("the skills are not sorted")
	}
	one, two := hydration(t.Context(), c, "os://up.md"), hydration(t.Context(), c, "os://down.md")
	if strings.ReplaceAll(string(one), "up.md", "") != strings.ReplaceAll(string(two), "down.md", "") {
		t.Error("the order in which they are declared decides which are left out")
	}
	out = hydrated(t, c, "os://full.md").Metadata.Dependencies
	if len(out.Skills) != 999 || len(out.Tools) != 1 || out.Tools[0].Description != "ERROR: UNSUPPORTED_SCHEME" {
		t.Errorf("of 1,000 there are %d skills and the tools %v", len(out.Skills), out.Tools)
	}
	out = hydrated(t, c, "os://tools.md").Metadata.Dependencies
	if len(out.Skills) != 999 || len(out.Tools) != 2 || out.Tools[0].Description != "ERROR: TOO_MANY_DEPENDENCIES" {
		t.Errorf("of 1,001 there are %d skills and the tools %v", len(out.Skills), out.Tools)
	}
}

// Clauses: H20-5.4-4
func TestRepeatReadsNothingAndAChangeIsSeen(t *testing.T) {
	s := newShelf(t, map[string]string{"agents/w.md": writer, "skills/grammar.md": "---\nname: G\ndescription: one\n---\n"})
	c := New(s, nil)
	first := hydration(t.Context(), c, "os://agents/w.md")
	for range 3 {
		if again := hydration(t.Context(), c, "os://agents/w.md"); string(again) != string(first) {
			t.Errorf("first %s, then %s", first, again)
		}
	}
	if a, g := s.readsOf("os://agents/w.md"), s.readsOf("os://skills/grammar.md"); a != 1 || g != 1 {
		t.Errorf("the agent was read %d times and the skill %d times", a, g)
	}
	s.set("os://skills/grammar.md", "---\nname: G\ndescription: two\n---\n")
	if d := hydrated(t, c, "os://agents/w.md").Metadata.Dependencies.Skills[0].Description; d != "two" {
		t.Errorf("the changed skill is described as %q", d)
	}
	if a := s.readsOf("os://agents/w.md"); a != 1 {
		t.Errorf("the agent was read %d times, and only the skill has changed", a)
	}
	s.set("os://agents/w.md", "Alone.")
	want(t, c, "os://agents/w.md", `{"content":"Alone.","metadata":{"uri":"os://agents/w.md","dependencies":{"skills":[],"tools":[]}}}`)
	s.mu.Lock()
	delete(s.files, "os://agents/w.md")
	s.mu.Unlock()
	want(t, c, "os://agents/w.md", `{"content":"","metadata":{"uri":"ERROR: FETCH_FAILED","dependencies":{"skills":[],"tools":[]}}}`)
}

// A file that is written twice within a tick of the clock, with texts of one length, has one
// version for both.
func TestChangeWithinATickIsSeen(t *testing.T) {
	files, dir := directory(t, map[string]string{"agents/w.md": writer})
	path := filepath.Join(dir, "skills", "grammar.md")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	c := New(files, nil)
	tick := time.Now().Add(time.Hour) // the clock of the file system stands still
	for i := range 50 {
		if err := os.WriteFile(path, fmt.Appendf(nil, "---\nname: G\ndescription: %04d\n---\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, tick, tick); err != nil {
			t.Fatal(err)
		}
		if d := hydrated(t, c, "os://agents/w.md").Metadata.Dependencies.Skills[0].Description; d != fmt.Sprintf("%04d", i) {
			t.Fatalf("change %d is not seen: %s", i, d)
		}
	}
}

func TestTenFetchesAtATime(t *testing.T) {
	const n = 35
	files := make(map[string]string)
	var names []string
	for i := range n {
		name := fmt.Sprintf("skills/%02d.md", i)
		files[name] = "---\nname: A\ndescription: a\n---\n"
		names = append(names, "os://"+name)
	}
	files["agent.md"] = "---\nskills: [" + strings.Join(names, ",") + "]\n---\n"
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, files)
		var waiting atomic.Int64
		gate := make(chan struct{})
		s.before = func(_ context.Context, uri string) {
			if uri != "os://agent.md" {
				waiting.Add(1)
				<-gate
				waiting.Add(-1)
			}
		}
		done := make(chan hydrateOutput, 1)
		go func() { done <- hydrated(t, New(s, nil), "os://agent.md") }()
		for left := int64(n); left > 0; left-- {
			synctest.Wait()
			if now := waiting.Load(); now != min(left, concurrent) {
				t.Fatalf("with %d to go, %d are fetched at a time", left, now)
			}
			gate <- struct{}{}
		}
		if out := <-done; len(out.Metadata.Dependencies.Skills) != n {
			t.Errorf("%d skills", len(out.Metadata.Dependencies.Skills))
		}
	})
}

func TestTimeThatIsOverIsASoftError(t *testing.T) {
	s := newShelf(t, map[string]string{"agents/w.md": writer, "skills/grammar.md": "---\nname: G\n---\n"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.before = func(_ context.Context, uri string) {
		if uri == "os://skills/grammar.md" {
			cancel()
		}
	}
	got := string(hydration(ctx, New(s, nil), "os://agents/w.md"))
	if !strings.Contains(got, `"content":"You write."`) || !strings.Contains(got, `"name":"ERROR: FETCH_FAILED"`) {
		t.Errorf("got %s", got)
	}
}

func TestPanicOfTheFilesReachesTheKernel(t *testing.T) {
	s := newShelf(t, map[string]string{"agents/w.md": writer})
	s.before = func(_ context.Context, uri string) {
		if uri == "os://skills/grammar.md" {
			panic("broken disk")
		}
	}
	m := call(t, kerneltest.Of(t, &kernel.Options{Blobs: kerneltest.NewBlobs(t)}, New(s, nil).Module()), "Content.Hydrate", `{"uri":"os://agents/w.md"}`)
	if e, err := message.ParseError(m.Data); m.Kind != message.KindError || err != nil || e.Code != 500 {
		t.Errorf("got %s %s", m.Kind, m.Data)
	}
}

func TestHydrateAsASyscall(t *testing.T) {
	s := newShelf(t, map[string]string{
		"agents/w.md":       writer,
		"skills/grammar.md": "---\nname: G\ndescription: <b>&\"\u2028\n---\n",
		"long.md":           "---\nname: L\n---\n" + strings.Repeat("long ", 10_000),
	})
	c := New(s, nil)
	k := kerneltest.Of(t, &kernel.Options{Blobs: kerneltest.NewBlobs(t)}, c.Module())
	for _, typ := range []message.Type{"Content.Hydrate", "FileSystem.Hydrate"} {
		m := call(t, k, typ, `{"uri":"os://agents/w.md"}`)
		if m.Kind != message.KindReply || m.Type != typ || string(m.Data) != string(hydration(t.Context(), c, "os://agents/w.md")) {
			t.Errorf("%s: %s %s", typ, m.Kind, m.Data)
		}
		if err := schema.Output[hydrateOutput]().Validate(m.Data); err != nil {
			t.Errorf("the reply does not fit its schema: %v", err)
		}
	}
	for _, data := range []string{`{}`, `{"uri":""}`, `{"uri":7}`, `"os://agents/w.md"`, `{"uri":"os://a.md","maxDepth":1}`, `null`} {
		m := call(t, k, "Content.Hydrate", data)
		if e, err := message.ParseError(m.Data); err != nil || m.Kind != message.KindError || e.Code != 422 {
			t.Errorf("%s: %s %s", data, m.Kind, m.Data)
		}
	}

	// A text that is too long for a line goes by pointer, and the metadata stays.
	m := k.Fit(t.Context(), call(t, k, "Content.Hydrate", `{"uri":"os://long.md"}`), message.MaxLine, func(m *message.Message) int { return len(m.Data) + 500 })
	var out struct {
		Content    *string
		ContentRef *message.BlobPointer
		Metadata   metadata
	}
	if err := json.Unmarshal(m.Data, &out); err != nil || out.Content != nil || out.ContentRef == nil || out.Metadata.URI != "os://long.md" {
		t.Fatalf("got %v %s", err, m.Data)
	}
	if text, err := os.ReadFile(out.ContentRef.Path); err != nil || string(text) != strings.Repeat("long ", 10_000) {
		t.Errorf("the blob has %d bytes, %v", len(text), err)
	}
	if err := schema.Output[hydrateOutput]().Validate(m.Data); err != nil {
		t.Errorf("the reply does not fit its schema: %v", err)
	}
}

func TestManyHydrationsAtOnce(t *testing.T) {
	s := newShelf(t, map[string]string{"agents/w.md": writer, "skills/grammar.md": "---\nname: G\ndescription: 0\n---\n"})
	c := New(s, nil)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				if i == 0 {
					s.set("os://skills/grammar.md", fmt.Sprintf("---\nname: G\ndescription: %d\n---\n", j))
				}
				if got := string(hydration(t.Context(), c, "os://agents/w.md")); !strings.Contains(got, `"name":"G"`) {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	group.Wait()
	if d := hydrated(t, c, "os://agents/w.md").Metadata.Dependencies.Skills[0].Description; d != "49" {
		t.Errorf("in the end it is %q", d)
	}
}

func FuzzHydrate(f *testing.F) {
	for _, seed := range []struct{ agent, skill string }{
		{writer, "---\nname: G\ndescription: g\n---\n"},
		{"---\nskills: grammar.md, ./grammar.md\ntools: [x, os://y, file:///z]\n---\nBody\r\n", "---\nname: a: b\n---\n"},
		{"---\nskills:\n  - ../../../../etc/passwd\n  - https://a/b\n---\n---\n", "no front matter"},
		{"\uFEFF---\nskills: [os://skills/grammar.md]\n---\n\xff", "---\nskills: &a [*a]\n---\n"},
		{"", "---"},
		{"---\nskills: [a\n---\n", "---\ndescription: |\n  two\n---\n"},
	} {
		f.Add(seed.agent, seed.skill)
	}
	output := schema.Output[hydrateOutput]()
	f.Fuzz(func(t *testing.T, agent, text string) {
		s := newShelf(t, map[string]string{"skills/agent.md": agent, "skills/grammar.md": text})
		c := New(s, nil)
		first := hydration(t.Context(), c, "os://skills/agent.md")
		if err := output.Validate(first); err != nil {
			t.Fatalf("the output is none: %v: %s", err, first)
		}
		if again := hydration(t.Context(), c, "os://skills/agent.md"); string(again) != string(first) {
			t.Fatalf("first %s, then %s", first, again)
		}
		if other := hydration(t.Context(), New(s, nil), "os://skills/agent.md"); string(other) != string(first) {
			t.Fatalf("here %s, there %s", first, other)
		}
		out := hydrated(t, c, "os://skills/agent.md")
		deps := out.Metadata.Dependencies
		for i := 1; i < len(deps.Skills); i++ {
			if deps.Skills[i-1].URI >= deps.Skills[i].URI {
				t.Errorf("not sorted: %q before %q", deps.Skills[i-1].URI, deps.Skills[i].URI)
			}
		}
		for _, skill := range deps.Skills {
			if skill.Name == "" || skill.Description == "" {
				t.Errorf("nothing is said of %q: %+v", skill.URI, skill)
			}
		}
		if out.Metadata.URI == "os://skills/agent.md" && !strings.HasSuffix(agent, *out.Content) {
			t.Errorf("the content %q is not the end of %q", *out.Content, agent)
		}
	})
}
