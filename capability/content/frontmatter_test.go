package content

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestBodyIsWhatStandsBehindTheFrontMatter(t *testing.T) {
	for _, test := range []struct{ name, file, body string }{
		{"plain", "---\nname: a\n---\nBody.\n", "Body.\n"},
		{"no final newline", "---\nname: a\n---\nBody", "Body"},
		{"no front matter", "# Title\n\n---\nname: a\n---\n", "# Title\n\n---\nname: a\n---\n"},
		{"empty file", "", ""},
		{"empty front matter", "---\n---\nBody", "Body"},
		{"nothing behind", "---\nname: a\n---\n", ""},
		{"no newline behind", "---\nname: a\n---", ""},
		{"rules in the body", "---\nname: a\n---\nA\n---\nB\n---\n", "A\n---\nB\n---\n"},
		{"blank lines stay", "---\nname: a\n---\n\n\n  B  \n\n", "\n\n  B  \n\n"},
		{"DOS lines", "---\r\nname: a\r\n---\r\nOne.\r\nTwo.\r\n", "One.\r\nTwo.\r\n"},
		{"mixed lines", "---\r\nname: a\n---\nOne.\r\n", "One.\r\n"},
		{"blanks behind the dashes", "--- \nname: a\n---\t \nBody", "Body"},
		{"byte order mark", "\uFEFF---\nname: a\n---\nBody", "Body"},
		{"byte order mark alone", "\uFEFFBody", "\uFEFFBody"},
		{"four dashes", "----\nname: a\n---\nBody", "----\nname: a\n---\nBody"},
		{"dashes with text", "---text\nBody", "---text\nBody"},
		{"indented dashes", "---\ndescription: |\n  a\n  ---\n  b\n---\nBody", "Body"},
		{"blank line first", "\n---\nname: a\n---\nBody", "\n---\nname: a\n---\nBody"},
		{"NUL in the body", "---\nname: a\n---\na\x00b", "a\x00b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, body, err := parse([]byte(test.file))
			if err != nil || string(body) != test.body {
				t.Errorf("got %q, %v, want %q", body, err, test.body)
			}
		})
	}
}

func TestFieldsAreReadAsTheyAreMeant(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       front
	}{
		{"plain", "name: A\ndescription: B\n", front{name: "A", description: "B"}},
		{"quotes", "name: \"A: b\"\ndescription: 'It''s'\n", front{name: "A: b", description: "It's"}},
		{"folded", "description: >-\n  two\n  lines\nname: A\n", front{name: "A", description: "two lines"}},
		{"literal", "description: |\n  two\n  lines\nname: A\n", front{name: "A", description: "two\nlines\n"}},
		{"number", "name: 42\n", front{name: "42"}},
		{"null", "name: ~\ndescription:\n", front{}},
		{"blank", "name: '  '\n", front{}},
		{"no text", "name: [a]\ndescription: {b: c}\n", front{}},
		{"comments only", "# nothing\n", front{}},
		{"list", "skills:\n- a.md\n-\n- \"b.md\" # two\n", front{skills: []string{"a.md", "b.md"}}},
		{"flow list", "tools: [a.sh, './b.sh']\n", front{tools: []string{"a.sh", "./b.sh"}}},
		{"commas", "skills: a.md, b.md,,c.md\n", front{skills: []string{"a.md", "b.md", "c.md"}}},
		{"one", "tools: a.sh\n", front{tools: []string{"a.sh"}}},
		{"lines", "tools: |\n  a.sh\n  b.sh\n", front{tools: []string{"a.sh", "b.sh"}}},
		{"empty lists", "skills: []\ntools:\n", front{}},
		{"type", "type: Agent\ncompatibility: Linux\n", front{kind: "Agent", compatibility: "Linux"}},
		{"alias", "name: &n A\ndescription: *n\nskills: &s [a.md]\ntools: *s\n", front{name: "A", description: "A", skills: []string{"a.md"}, tools: []string{"a.md"}}},
		{"duplicate", "name: A\nname: B\n", front{name: "B", duplicate: []string{"name"}}},
		{"DOS", "name: A\r\nskills:\r\n  - a.md\r\n", front{name: "A", skills: []string{"a.md"}}},
		{"Agent Skills", "name: pdf\ndescription: Reads PDFs\nlicense: MIT\ncompatibility: Linux\nmetadata:\n  author: me\n  version: \"1\"\nallowed-tools: Bash(git:*) Read\n",
			front{name: "pdf", description: "Reads PDFs", compatibility: "Linux"}},

		{"colon", "name: A\ndescription: Use it when: always\n", front{name: "A", description: "Use it when: always", repaired: true}},
		{"colon on the next line", "description: Use it\n  when: always\nname: A\n", front{name: "A", description: "Use it when: always", repaired: true}},
		{"colon at the end", "description: Use it: when\n  you want:\nname: A\n", front{name: "A", description: "Use it: when you want:", repaired: true}},
		{"apostrophe and colon", "description: It's: so\n", front{description: "It's: so", repaired: true}},
		{"colon and comment", "description: a: b # c\n", front{description: "a: b", repaired: true}},
		{"bold", "description: **Do** it\n", front{description: "**Do** it", repaired: true}},
		{"at", "name: @me\ntools:\n  - @scope/tool\n", front{name: "@me", tools: []string{"@scope/tool"}, repaired: true}},
		{"strays", "description: \"a\" and \"b\"\n", front{description: "\"a\" and \"b\"", repaired: true}},
		{"tabs", "metadata:\n\tauthor: me\nskills:\n\t- a.md\n", front{skills: []string{"a.md"}, repaired: true}},
		{"tab behind the colon", "name:\tA\n", front{name: "A"}},
		{"repaired beside others", "description: a: b\nname: 'It''s'\nmetadata:\n  x: \"y # z\"\nskills: [a.md]\ntools:\n  - b.sh\nlicense: >\n  c: d\n  e\n",
			front{description: "a: b", name: "It's", skills: []string{"a.md"}, tools: []string{"b.sh"}, repaired: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := parse([]byte("---\n" + test.text + "---\n"))
			test.want.present = true
			if err != nil || !sameFront(&got, &test.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, test.want)
			}
		})
	}
}

func sameFront(a, b *front) bool {
	return a.present == b.present && a.name == b.name && a.description == b.description && slices.Equal(a.skills, b.skills) &&
		slices.Equal(a.tools, b.tools) && a.kind == b.kind && a.compatibility == b.compatibility && a.repaired == b.repaired && slices.Equal(a.duplicate, b.duplicate)
}

// Clauses: H20-5.3-13
func TestWhatCantBeReadIsAnError(t *testing.T) {
	for _, test := range []struct{ name, file string }{
		{"no end", "---\nname: A\n\nBody.\n"},
		{"no end at all", "---"},
		{"open quote", "---\nname: \"open\n---\n"},
		{"open list", "---\nskills: [a.md\nname: A\n---\n"},
		{"a text", "---\nHello\n---\n"},
		{"a list", "---\n- a\n- b\n---\n"},
		{"list of lists", "---\nskills:\n  - [a.md]\n---\n"},
		{"list of fields", "---\ntools:\n  - name: a\n---\n"},
		{"fields for a list", "---\nskills: {a: b}\n---\n"},
		{"unknown alias", "---\nskills: [*a]\n---\n"},
		{"a list in itself", "---\nskills: &a [*a]\n---\n"},
		{"not UTF-8", "---\nname: A\n---\nB\xff"},
		{"UTF-16", "\xff\xfe-\x00-\x00-\x00"},
		{"too long", "---\nname: " + strings.Repeat("a", maxFrontMatter) + "\n---\n"},
		{"too deep", "---\nskills: " + strings.Repeat("[", 100_000) + "\n---\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if f, _, err := parse([]byte(test.file)); err == nil {
				t.Errorf("read as %+v", f)
			}
		})
	}
}

// Aliases can make much of little. Nothing that is taken out is longer than what may be
// put in.
func TestAliasesDontGrow(t *testing.T) {
	long := "a: &a " + strings.Repeat("x", 100_000) + "\nskills:\n" + strings.Repeat("  - *a\n", 10_000)
	if _, _, err := parse([]byte("---\n" + long + "---\n")); err == nil {
		t.Error("10,000 times 100,000 signs are a list")
	}
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	f, _, err := parse([]byte("---\nname: A\n" + laughs.String() + "---\n"))
	if err != nil || f.name != "A" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, _, err := parse([]byte("---\n" + laughs.String() + "skills: *a29\n---\n")); err == nil {
		t.Error("lists of lists are a list of texts")
	}
}

func FuzzFrontMatter(f *testing.F) {
	for _, seed := range []string{
		"", "---\n---\n", "---\nname: A\ndescription: B\n---\nBody", "\uFEFF---\r\nname: A\r\n---\r\n", "---\nname: A",
		"---\ndescription: a: b\n  c: d\n---\n", "---\nskills: [a, b]\ntools: a, b\n---\n---\n", "---\n\tname: A\n---\n",
		"---\nskills: &a [*a]\n---\n", "---\na: |\n  b\n ---\n---\n", "---\ndescription: \"a\" b: c\n---\n", "---\n? a\n: b\n---\n",
		"---\n- @a\n- *b\n---\n", "---\nname: !!binary aGk=\n---\n", "---\n<<: {name: A}\n---\n", "---\nname: 'a''b: c'd: e\n---\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		front, body, err := parse(data)
		if err != nil {
			return
		}
		if !strings.HasSuffix(string(data), string(body)) {
			t.Errorf("the body %q is not the end of %q", body, data)
		}
		if !front.present && len(body) != len(data) {
			t.Errorf("without front matter, the body is not all: %q of %q", body, data)
		}
		size := 0
		for _, text := range append(front.skills, front.tools...) {
			size += len(text)
		}
		if size > 2*maxFrontMatter {
			t.Errorf("%d bytes of texts", size)
		}
		// The body plays no part in what the front matter says.
		head := data[:len(data)-len(body)]
		again, _, err := parse(head)
		if err != nil || !sameFront(&front, &again) {
			t.Errorf("with another body it is %+v, %v, and not %+v", again, err, front)
		}
	})
}
