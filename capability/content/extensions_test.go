package content

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
)

// circle is an agent whose skills name each other, and the agent.
func circle() map[string]string {
	return map[string]string{
		"agents/a.md":   "---\nskills: [../skills/one.md]\ntools: [Read]\n---\nA.",
		"skills/one.md": "---\nname: One\ndescription: 1\nskills: [two.md, one.md]\ntools: [Write]\n---\n",
		"skills/two.md": "---\nname: Two\ndescription: 2\nskills: [one.md, ../agents/a.md, gone.md]\ntools: [Read, Write]\n---\n",
	}
}

func TestFlatteningEndsOnCircles(t *testing.T) {
	k := kerneltest.Of(t, &kernel.Options{Blobs: kerneltest.NewBlobs(t)}, New(newShelf(t, circle()), nil).Module())
	none := `"description":"` + foreign + `"`
	plain := `{"content":"A.","metadata":{"uri":"os://agents/a.md","dependencies":{"skills":[{"uri":"os://skills/one.md","name":"One","description":"1","skills":["two.md","one.md"],"tools":["Write"]}],"tools":[{"uri":"Read",` + none + `}]}}}`
	for data, want := range map[string]string{
		`{"uri":"os://agents/a.md"}`:                 plain,
		`{"uri":"os://agents/a.md","flatten":false}`: plain,
		`{"uri":"os://agents/a.md","flatten":true}`: `{"content":"A.","metadata":{"uri":"os://agents/a.md","dependencies":{"skills":[` +
			`{"uri":"os://agents/a.md","name":"ERROR: MISSING_NAME","description":"ERROR: MISSING_DESCRIPTION","skills":["../skills/one.md"],"tools":["Read"]},` +
			`{"uri":"os://skills/gone.md","name":"ERROR: FETCH_FAILED","description":"ERROR: FETCH_FAILED","skills":[],"tools":[]},` +
			`{"uri":"os://skills/one.md","name":"One","description":"1","skills":["two.md","one.md"],"tools":["Write"]},` +
			`{"uri":"os://skills/two.md","name":"Two","description":"2","skills":["one.md","../agents/a.md","gone.md"],"tools":["Read","Write"]}],` +
			`"tools":[{"uri":"Read",` + none + `},{"uri":"Write",` + none + `}]}}}`,
	} {
		if got := string(call(t, k, "Content.Hydrate", data).Data); got != want {
			t.Errorf("%s:\n got %s\nwant %s", data, got, want)
		}
	}
}

// TestFlatteningIsBounded follows 3,000 skills that name the next three.
func TestFlatteningIsBounded(t *testing.T) {
	files := map[string]string{"a.md": "---\nskills: [s0000.md]\n---\n"}
	for i := range 3000 {
		files[fmt.Sprintf("s%04d.md", i)] = fmt.Sprintf("---\nname: S\ndescription: s\nskills: [s%04d.md, s%04d.md, s%04d.md]\n---\n", i+1, (i*7)%3000, (i*13)%3000)
	}
	c := New(newShelf(t, files), nil)
	skills := c.compose(kernel.OnItsOwn(t.Context()), hydrateInput{URI: "os://a.md", Flatten: true}).Metadata.Dependencies.Skills
	if n := len(skills); n < maxDependencies || n > maxDependencies+3 || skills[0].URI != string(tooManyDependencies) {
		t.Errorf("%d skills, the first is %+v", n, skills[0])
	}
}

func TestChecksums(t *testing.T) {
	all := circle()
	all["agents/t.md"] = "---\nskills: [../skills/one.md, gone.md, name]\ntools: [../tools/t.sh, Read]\n---\nT."
	all["tools/t.sh"] = "#!/bin/sh\necho T\n"
	files, _ := directory(t, all)
	c := New(files, nil)
	sum := func(name string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(all[name]))) }
	m := c.compose(kernel.OnItsOwn(t.Context()), hydrateInput{URI: "os://agents/t.md", Checksums: true}).Metadata
	got := []string{m.Checksum}
	for _, s := range m.Dependencies.Skills {
		got = append(got, s.URI+" "+s.Checksum)
	}
	for _, s := range m.Dependencies.Tools {
		got = append(got, s.URI+" "+s.Description+" "+s.Checksum)
	}
	want := []string{sum("agents/t.md"), "os://agents/gone.md ", "os://agents/name ", "os://skills/one.md " + sum("skills/one.md"), "Read " + foreign + " ", "os://tools/t.sh T " + sum("tools/t.sh")}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text := string(hydration(t.Context(), c, "os://agents/t.md")); strings.Contains(text, "sha256") {
		t.Errorf("checksums that were not asked for: %s", text)
	}
}

func TestConditionalSkills(t *testing.T) {
	k := kerneltest.Of(t, &kernel.Options{Blobs: kerneltest.NewBlobs(t)}, New(newShelf(t, map[string]string{
		"a.md": "---\nskills: [always.md]\nskills_if:\n  - {platform: web, skills: [web.md, always.md]}\n  - {platform: [ios, android], mode: offline, skills: [phone.md]}\n  - {skills: [never.md]}\n---\n",
		"b.md": "---\nskills_if: {platform: web, skills: web.md}\n---\n",
	}), nil).Module())
	for _, test := range []struct{ data, want string }{
		{`{"uri":"os://a.md"}`, "always"},
		{`{"uri":"os://a.md","conditions":{}}`, "always"},
		{`{"uri":"os://a.md","conditions":{"platform":"web"}}`, "always web"},
		{`{"uri":"os://a.md","conditions":{"platform":"Web"}}`, "always"},
		{`{"uri":"os://a.md","conditions":{"platform":"ios"}}`, "always"},
		{`{"uri":"os://a.md","conditions":{"platform":"ios","mode":"offline","more":"x"}}`, "always phone"},
		{`{"uri":"os://b.md"}`, ""},
		{`{"uri":"os://b.md","conditions":{"platform":"web"}}`, "web"},
	} {
		data := string(call(t, k, "Content.Hydrate", test.data).Data)
		var got []string
		for _, part := range strings.Split(data, `"uri":"os://`)[2:] {
			name, _, _ := strings.Cut(part, ".md")
			got = append(got, name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %q, want %s: %s", test.data, got, test.want, data)
		}
	}
}

func TestVersionedNames(t *testing.T) {
	skill := func(version string) string {
		return "---\nname: S\ndescription: s\n" + version + "---\n"
	}
	files := map[string]string{
		"skills/search@1.0.0.md":         skill(""),
		"skills/search@2.1.0.md":         skill(""),
		"skills/search@2.10.0.md":        skill(""),
		"skills/search@3.0.0-rc.1.md":    skill(""),
		"skills/folder/1.0.0/SKILL.md":   skill(""),
		"skills/folder/1.5.0/SKILL.md":   skill(""),
		"skills/declared/SKILL.md":       skill("version: 1.2.3\n"),
		"skills/agent-skill/SKILL.md":    skill("metadata: {version: '0.4'}\n"),
		"skills/bare.md":                 skill(""),
		"team/skills/search@2.0.0.md":    skill(""),
		"team/agents/deep/x/skills/a.md": skill(""),
	}
	for _, test := range []struct{ named, base, want string }{
		{"search@^2.0.0", "a.md", "os://skills/search@2.10.0.md"},
		{"search@~2.1", "a.md", "os://skills/search@2.1.0.md"},
		{"search@1.x", "a.md", "os://skills/search@1.0.0.md"},
		{"search@<2 || >=2.5", "a.md", "os://skills/search@2.10.0.md"},
		{"search@>=1, <2.5", "a.md", "os://skills/search@2.1.0.md"},
		{"search@>=1 <2.5", "a.md", "os://skills/search@2.1.0.md"},
		{"search@1 - 2.5", "a.md", "os://skills/search@2.1.0.md"},
		{"search@v1", "a.md", "os://skills/search@1.0.0.md"},
		{"search@*", "a.md", "os://skills/search@2.10.0.md"},
		{"search@^3.0.0-0", "a.md", "os://skills/search@3.0.0-rc.1.md"},
		{"search", "a.md", "os://skills/search@3.0.0-rc.1.md"},
		{"search@3.0.0-rc.1", "a.md", "os://skills/search@3.0.0-rc.1.md"},
		{"search@^2.0.0", "team/agents/a.md", "os://team/skills/search@2.0.0.md"},
		{"search@^1.0.0", "team/agents/a.md", "os://skills/search@1.0.0.md"},
		{"os://skills/search@^2.0.0", "team/agents/a.md", "os://skills/search@2.10.0.md"},
		{"../../skills/search@1", "team/agents/a.md", "os://skills/search@1.0.0.md"},
		{"folder@^1.0.0", "a.md", "os://skills/folder/1.5.0/SKILL.md"},
		{"folder", "a.md", "os://skills/folder/1.5.0/SKILL.md"},
		{"declared@^1.2.0", "a.md", "os://skills/declared/SKILL.md"},
		{"agent-skill@0.4", "a.md", "os://skills/agent-skill/SKILL.md"},
		{"bare", "a.md", "os://skills/bare.md"},
		{"a", "team/agents/deep/x/y/b.md", "os://team/agents/deep/x/skills/a.md"},
		{"search@^9.0.0", "a.md", "os://search@^9.0.0 " + string(noVersion)},
		{"bare@^1.0.0", "a.md", "os://bare@^1.0.0 " + string(noVersion)},
		{"os://skills/search@^9.0.0", "a.md", "os://skills/search@^9.0.0 " + string(noVersion)},
		{"os://skills/none@^9.0.0", "a.md", "os://skills/none@^9.0.0 " + string(fetchFailed)},
		{"none@^1.0.0", "a.md", "os://none@^1.0.0 " + string(fetchFailed)},
		{"someone@example", "a.md", "os://someone@example " + string(fetchFailed)},
		{"search@", "a.md", "os://search@ " + string(fetchFailed)},
		{"none", "team/agents/a.md", "os://team/agents/none " + string(fetchFailed)},
		{"os://skills/search@>=1 <2.5", "a.md", "os://skills/search@2.1.0.md"},
		{"os://skills/search@<2 || >=2.5", "a.md", "os://skills/search@2.10.0.md"},
		{"os://skills/search@*", "a.md", "os://skills/search@2.10.0.md"},
		{"os://skills/search.md@^2.0.0", "a.md", "os://skills/search@2.10.0.md"},
		{"os://skills/folder/SKILL.md@^1.0.0", "a.md", "os://skills/folder/1.5.0/SKILL.md"},
		{"os://skills/declared@1.2.3", "a.md", "os://skills/declared/SKILL.md"},
	} {
		s := newShelf(t, files)
		s.set("os://"+test.base, "---\nskills:\n  - '"+test.named+"'\n---\n")
		found := hydrated(t, New(s, nil), "os://"+test.base).Metadata.Dependencies.Skills[0]
		got := found.URI
		if found.Name != "S" {
			got += " " + found.Description
		}
		if got != test.want {
			t.Errorf("%s in %s: got %s, want %s", test.named, test.base, got, test.want)
		}
	}
}
