package content

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// library is a tree with all that the index tells apart.
func library() map[string]string {
	return map[string]string{
		"skills/pdf/SKILL.md":            "---\nname: pdf\ndescription: Reads PDFs\nlicense: MIT\n---\n",
		"skills/pdf/references/forms.md": "---\nname: Forms\ndescription: Part of it\n---\n",
		"skills/pdf/README.md":           "Part of it, too.",
		"skills/Wrong_Name/SKILL.md":     "---\nname: Other--Name\ndescription: " + strings.Repeat("d", 1025) + "\ncompatibility: " + strings.Repeat("c", 501) + "\n---\n",
		"skills/nameless/SKILL.md":       "---\nlicense: MIT\n---\n",
		"skills/bare.md":                 "No front matter.",
		"skills/README.md":               "About skills.",
		"skills/garbled.md":              "---\nname: \"open\n---\n",
		"skills/colon.md":                "---\nname: Colon\ndescription: when: always\nname: Colon\n---\n",
		"skills/deps.md":                 "---\nname: Deps\ndescription: d\nskills: [bare.md, gone.md, 'file:///x', 'a\\b', 'https://example.com/far.md']\ntools: [/tools/run.sh, nil.sh]\n---\n",
		"agents/writer.md":               "---\nskills: [os://skills/pdf/SKILL.md]\n---\nYou write.",
		"agents/plain.md":                "You are plain.",
		"agents/notes/todo.md":           "No agent: a note.",
		"team/lead.agent.md":             "---\ndescription: Leads\n---\n",
		"typed.md":                       "---\ntype: Agent\n---\n",
		"loose.md":                       "---\nname: Loose\ndescription: A skill anywhere\n---\n",
		"uses.md":                        "---\ntools: [tools/run.sh]\n---\n",
		"README.md":                      "---\nname: R\ndescription: r\n---\n",
		"notes.md":                       "---\ntitle: Notes\n---\n",
		"tools/run.sh":                   "#!/bin/sh\ntouch ran\n",
	}
}

func TestIndexTellsWhatIsThereAndWhatIsWrong(t *testing.T) {
	files, dir := directory(t, library())
	c := New(files, nil)
	lines := func() []string {
		out, err := c.index(t.Context(), indexInput{URI: "os://"})
		if err != nil || out.Cursor != "" || out.Skipped != 0 {
			t.Fatalf("%v, %+v", err, out)
		}
		var lines []string
		for _, e := range out.Entries {
			var codes []string
			for _, p := range e.Problems {
				code, words, ok := strings.Cut(p, ": ")
				if !ok || words == "" {
					t.Errorf("a problem without words: %q", p)
				}
				codes = append(codes, code)
			}
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %q %s", e.Kind, e.URI, e.Name, strings.Join(codes, " "))))
		}
		return lines
	}
	wanted := []string{
		`agent os://agents/plain.md "" NO_FRONT_MATTER`,
		`agent os://agents/writer.md ""`,
		`skill os://loose.md "Loose"`,
		`skill os://skills/Wrong_Name/SKILL.md "Other--Name" DESCRIPTION_TOO_LONG INVALID_NAME NAME_DIFFERS COMPATIBILITY_TOO_LONG`,
		`skill os://skills/bare.md "" NO_FRONT_MATTER`,
		`skill os://skills/colon.md "Colon" MALFORMED_YAML DUPLICATE_FIELD`,
		`skill os://skills/deps.md "Deps" INVALID_URI UNSUPPORTED_SCHEME MISSING_DEPENDENCY MISSING_DEPENDENCY`,
		`skill os://skills/garbled.md "" PARSE_ERROR`,
		`skill os://skills/nameless/SKILL.md "" MISSING_NAME MISSING_DESCRIPTION`,
		`skill os://skills/pdf/SKILL.md "pdf"`,
		`agent os://team/lead.agent.md ""`,
		`agent os://typed.md ""`,
		`agent os://uses.md ""`,
	}
	if got := lines(); !slices.Equal(got, wanted) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
	// A change is seen, also of what something depends on.
	put(t, dir, map[string]string{"skills/gone.md": "---\nname: Back\ndescription: again\n---\n", "skills/bare.md": "---\nname: Bare\ndescription: not any more\n---\n"})
	got := strings.Join(lines(), "\n")
	if !strings.Contains(got, `skill os://skills/bare.md "Bare"`+"\n") || !strings.Contains(got, "UNSUPPORTED_SCHEME MISSING_DEPENDENCY\n") {
		t.Errorf("after a change\n%s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "tools", "ran")); err == nil {
		t.Error("a tool was executed")
	}
}

func TestIndexByPages(t *testing.T) {
	c := New(newShelf(t, library()), nil)
	all, err := c.index(t.Context(), indexInput{URI: "os://", Limit: 10000})
	if err != nil {
		t.Fatal(err)
	}
	for limit := 1; limit <= len(all.Entries); limit++ {
		var found []indexEntry
		in := indexInput{URI: "os://", Limit: limit}
		for {
			out, err := c.index(t.Context(), in)
			if err != nil || len(out.Entries) == 0 || len(out.Entries) > limit {
				t.Fatalf("%v, %d entries", err, len(out.Entries))
			}
			found = append(found, out.Entries...)
			if in.Cursor = out.Cursor; in.Cursor == "" {
				break
			}
		}
		if !slices.EqualFunc(found, all.Entries, func(a, b indexEntry) bool { return a.URI == b.URI }) {
			t.Errorf("by %d, %d entries come", limit, len(found))
		}
	}
}

func TestIndexOfALargeTree(t *testing.T) {
	files := make(map[string]string)
	for i := range 2000 {
		files[fmt.Sprintf("skills/s-%04d/SKILL.md", i)] = fmt.Sprintf("---\nname: s-%04d\ndescription: d\n---\n", i)
	}
	c := New(newShelf(t, files), nil)
	k := kerneltest.Of(t, &kernel.Options{Blobs: kerneltest.NewBlobs(t)}, c.Module())
	m := k.Fit(t.Context(), call(t, k, "Content.Index", `{"uri":"os://skills","limit":1500}`), message.MaxLine, func(m *message.Message) int { return len(m.Data) + 500 })
	var out indexOutput
	if err := json.Unmarshal(m.Data, &out); err != nil || out.EntriesRef == nil || out.Cursor == "" {
		t.Fatalf("%v: %s", err, m.Data)
	}
	var entries []indexEntry
	if text, err := os.ReadFile(out.EntriesRef.Path); err != nil || json.Unmarshal(text, &entries) != nil || len(entries) != 1500 {
		t.Errorf("%v: %d entries in the blob", err, len(entries))
	}
}

func TestIndexErrors(t *testing.T) {
	files, dir := directory(t, map[string]string{"skills/a.md": "---\nname: A\ndescription: a\n---\n"})
	k := kerneltest.Of(t, &kernel.Options{Blobs: kerneltest.NewBlobs(t)}, New(files, nil).Module())
	for _, test := range []struct {
		data string
		code int
	}{
		{`{}`, 422},
		{`{"uri":""}`, 422},
		{`{"uri":"os://","limit":0}`, 422},
		{`{"uri":"os://","limit":10001}`, 422},
		{`{"uri":"os://","cursor":"?"}`, 422},
		{`{"uri":"os://","cursor":"eA"}`, 422},
		{`{"uri":"file:///etc"}`, 422},
		{`{"uri":"os://skills/a.md"}`, 422},
		{`{"uri":"os://nowhere"}`, 404},
	} {
		m := call(t, k, "Content.Index", test.data)
		if e, err := message.ParseError(m.Data); err != nil || m.Kind != message.KindError || e.Code != test.code {
			t.Errorf("%s: %s %s, want %d", test.data, m.Kind, m.Data, test.code)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if m := call(t, k, "Content.Index", `{"uri":"os://empty"}`); string(m.Data) != `{"entries":[]}` {
		t.Errorf("an empty folder: %s", m.Data)
	}
}

func TestIndexGoesOnBehindWhatCantBeRead(t *testing.T) {
	files, dir := directory(t, map[string]string{
		"skills/a.md":    "---\nname: A\ndescription: a\n---\n",
		"skills/b\\c.md": "---\nname: B\ndescription: no URI can name it\n---\n",
		"skills/d.md":    "---\nname: D\ndescription: d\n---\n",
	})
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "skills", "c.md")); err != nil {
		t.Fatal(err)
	}
	c := New(files, nil)
	out, err := c.index(t.Context(), indexInput{URI: "os://skills"})
	if err != nil || len(out.Entries) != 2 || out.Skipped != 1 {
		t.Errorf("%v, %+v", err, out)
	}
	// Gone between the walk and the read.
	x := indexing{c: c, ctx: t.Context()}
	e := x.entry(&Entry{URI: "os://skills/gone.md"})
	if e == nil || e.Kind != "skill" || len(e.Problems) != 1 || !strings.HasPrefix(e.Problems[0], "FETCH_FAILED: File not found") {
		t.Errorf("got %+v", e)
	}
	if e := x.entry(&Entry{URI: "os://notes/gone.md"}); e != nil {
		t.Errorf("got %+v", e)
	}
}
