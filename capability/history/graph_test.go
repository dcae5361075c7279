package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kernos/message"
)

// links makes the nodes of a graph from lines such as "reply b<a".
func links(lines ...string) []node {
	var nodes []node
	for i, line := range lines {
		kind, lineage, _ := strings.Cut(line, " ")
		id, causation, _ := strings.Cut(lineage, "<")
		nodes = append(nodes, node{seq: uint64(i + 1), at: int64(1000 + i), timestamp: int64(i), kind: message.Kind(kind), typ: "Test.Run",
			id: message.ID(id), causation: message.ID(causation)})
	}
	return nodes
}

// parents writes for each node the number of its parent.
func parents(g *graph) string {
	var b strings.Builder
	for i := range g.nodes {
		fmt.Fprintf(&b, " %d", g.nodes[i].parent)
	}
	return strings.TrimSpace(b.String())
}

func TestLinks(t *testing.T) {
	for _, c := range []struct {
		name    string
		lines   []string
		parents string
		roots   string
		cycles  string
	}{
		{"chain", []string{"command a", "query b<a", "reply c<b"}, "-1 0 1", "[0]", "[]"},
		{"branches", []string{"command a", "event b<a", "event c<a", "reply d<a"}, "-1 0 0 0", "[0]", "[]"},
		{"two roots", []string{"command a", "command b", "reply c<b"}, "-1 -1 1", "[0 1]", "[]"},
		{"missing", []string{"event b<lost", "event c<lost", "command d"}, "3 3 -1 -1", "[3 2]", "[]"},
		{"missing later", []string{"command d", "event b<lost"}, "-1 2 -1", "[0 2]", "[]"},
		{"used again", []string{"command a", "reply b<a", "command a", "reply c<a"}, "-1 0 -1 2", "[0 2]", "[]"},
		{"an answer with the request's id", []string{"command a", "reply a<a"}, "-1 0", "[0]", "[]"},
		{"itself", []string{"command a<a", "reply b<a"}, "0 0", "[0]", "[[0]]"},
		{"two that cause each other", []string{"command a<b", "command b<a", "event c<b"}, "1 0 1", "[0]", "[[0 1]]"},
		{"a circle with a tail", []string{"event t<a", "command a<c", "command b<a", "command c<b"}, "1 3 1 2", "[1]", "[[1 2 3]]"},
		{"two circles", []string{"command a<b", "command c<d", "command d<c", "command b<a"}, "3 2 1 0", "[0 1]", "[[0 3] [1 2]]"},
		{"a cause that comes later", []string{"reply b<a", "command a"}, "1 -1", "[1]", "[]"},
	} {
		g := newGraph(links(c.lines...))
		if got := parents(g); got != c.parents {
			t.Errorf("%s: parents %s, want %s", c.name, got, c.parents)
		}
		if got := fmt.Sprint(g.roots); got != c.roots {
			t.Errorf("%s: roots %s, want %s", c.name, got, c.roots)
		}
		if got := fmt.Sprint(g.cycles); got != c.cycles {
			t.Errorf("%s: cycles %s, want %s", c.name, got, c.cycles)
		}
	}
}

// hostileIDs are what an attacker might choose to break out of a picture.
var hostileIDs = []string{
	`"]; click A "javascript:alert(1)"`,
	`</script><script>alert(1)</script>`,
	"line\nbreak\r\ttab",
	"`markdown` **bold** [link](javascript:x)",
	"%%{init: {'securityLevel':'loose'}}%%",
	`back\slash\n"quote\"`,
	"\u202Eright to left\u202C \u2066isolate\u2069 \u200Bzero\uFEFF",
	"style a:fill#f00;",
	"#quot; &quot; #34; &#34;",
	"n1 --> n2; end",
	"}}) ]] ]) {{ ([ |x|",
	"\x1b[31mred\x1b[0m\x07",
	"\x80\xff bad utf8",
	"漢字 😀 e\u0301 العربية",
	"---\ntitle: x\n---",
	"1. list",
	"\\N \\G \\l",
	"classDef x:#fff;",
	strings.Repeat("long", 64),
}

// hostile is a graph of the ids above.
func hostile() *graph {
	nodes := links("command root")
	for i, id := range hostileIDs {
		kinds := []message.Kind{"command", "query", "event", "reply", "error"}
		cause := "root"
		if i%4 == 3 {
			cause = hostileIDs[i-1]
		}
		if i%7 == 6 {
			cause = "gone " + id
		}
		nodes = append(nodes, node{seq: uint64(i + 2), at: int64(1000 + i), kind: kinds[i%5], typ: message.Type("Test." + id), id: message.ID(id),
			causation: message.ID(cause), code: 400 + i, text: id})
	}
	return newGraph(nodes)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func formats(g *graph) map[string][]byte {
	return map[string][]byte{"mermaid": g.chart(&mermaid), "dot": g.chart(&graphviz), "tree": g.tree(), "json": must(g.json())}
}

// Set UPDATE_GOLDEN to write the files in testdata anew.
func TestGolden(t *testing.T) {
	nodes, more, err := reader{journal: shop(t)}.readNodes(t.Context(), "w", nil, 100)
	if err != nil || more {
		t.Fatal(err)
	}
	strange := newGraph(links("command a<b", "command b<a", "reply c<b", "command s<s", "event d<gone", "command a", "reply e<a"))
	strange.more = true
	for name, g := range map[string]*graph{"shop": newGraph(nodes), "strange": strange, "hostile": hostile()} {
		for format, got := range formats(g) {
			path := filepath.Join("testdata", name+"."+format)
			if format == "json" {
				var b bytes.Buffer
				if err := json.Indent(&b, got, "", "  "); err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				got = append(b.Bytes(), '\n')
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(path, got, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs (%v); got\n%s", path, err, got)
			}
		}
	}
}

var (
	mermaidLine = regexp.MustCompile(`^(?:graph TD` +
		`|  (?:n\d+|more)(?:\["[^"]*"\]|\("[^"]*"\)|\(\["[^"]*"\]\)|\{\{"[^"]*"\}\}):::(?:command|query|event|reply|failed|missing)` +
		`|  n\d+ (?:-->|-\.->|-\. "[0-9.a-z]+" \.->|== "↻ cycle" ==>) n\d+` +
		`|  classDef [a-z]+ [a-z0-9#:, -]+)$`)
	mermaidLabel = regexp.MustCompile(`^(?:[\pL\p{Nd}._ ✓✗…-]|#\d+;|<br/>)*$`)
	dotLine      = regexp.MustCompile(`^(?:digraph workflow \{|\}|  rankdir=TB|  node \[[^\]]*\]|  edge \[[^\]]*\]` +
		`|  (?:n\d+|more) \[label="[^"]*"(?:,[a-z]+=(?:"[a-z0-9#,]*"|[a-z]+))+\]` +
		`|  n\d+ -> n\d+(?: \[[^\]]*\])?)$`)
	dotLabel = regexp.MustCompile(`^(?:[\pL\p{Nd}._ ✓✗…-]|&#\d+;|\\n)*$`)
	quoted   = regexp.MustCompile(`"([^"]*)"`)
)

// checkFormats holds a graph's pictures against what they may be, whatever the ids are.
func checkFormats(t *testing.T, g *graph) {
	t.Helper()
	edges := 0
	for i := range g.nodes {
		if g.nodes[i].parent != none {
			edges++
		}
	}
	lines := map[string]int{
		"mermaid": 1 + len(g.nodes) + edges + strings.Count(mermaidClasses, "\n"),
		"dot":     5 + len(g.nodes) + edges,
		"tree":    len(g.nodes) + len(g.cycles),
	}
	for format, text := range formats(g) {
		if !utf8.Valid(text) {
			t.Fatalf("%s is not UTF-8: %q", format, text)
		}
		if format == "json" {
			checkJSON(t, g, text, edges)
			continue
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			line = strings.TrimSuffix(line, "\n")
			for _, r := range line {
				if r < ' ' || r >= 0x7F && r < 0xA0 || r >= 0x200B && r <= 0x200F || r >= 0x2028 && r <= 0x202E || r >= 0x2060 && r <= 0x206F || r == 0xFEFF {
					t.Fatalf("%s has U+%04X in %q", format, r, line)
				}
			}
			switch {
			case format == "mermaid" && !mermaidLine.MatchString(line), format == "dot" && !dotLine.MatchString(line):
				t.Fatalf("%s has the line %q", format, line)
			case format == "mermaid" && strings.Contains(line, ":::"):
				if label := quoted.FindStringSubmatch(line)[1]; !mermaidLabel.MatchString(label) {
					t.Fatalf("mermaid has the label %q", label)
				}
			case format == "dot" && strings.Contains(line, "shape="):
				if label := quoted.FindStringSubmatch(line)[1]; !dotLabel.MatchString(label) {
					t.Fatalf("dot has the label %q", label)
				}
			}
		}
		if n != lines[format] {
			t.Fatalf("%s has %d lines for %d nodes and %d edges, want %d:\n%s", format, n, len(g.nodes), edges, lines[format], text)
		}
	}
}

func checkJSON(t *testing.T, g *graph, text []byte, edges int) {
	t.Helper()
	var got struct {
		Nodes []struct{ ID string }
		Edges []struct{ From, To string }
		Roots []string
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("json: %v: %s", err, text)
	}
	if len(got.Nodes) != len(g.nodes) || len(got.Edges) != edges || len(got.Roots) != len(g.roots) {
		t.Fatalf("json has %d nodes, %d edges, %d roots; the graph has %d, %d, %d", len(got.Nodes), len(got.Edges), len(got.Roots), len(g.nodes), edges, len(g.roots))
	}
	for i := range g.nodes {
		if want := strings.ToValidUTF8(string(g.nodes[i].id), "\uFFFD"); utf8.ValidString(string(g.nodes[i].id)) && got.Nodes[i].ID != want {
			t.Fatalf("json has the id %q, want %q", got.Nodes[i].ID, want)
		}
	}
}

func TestHostileIDsStayInTheirLabels(t *testing.T) { checkFormats(t, hostile()) }

func TestTheJSONOfAGraphFitsItsSchema(t *testing.T) {
	s := graphDefinition
	for _, g := range []*graph{hostile(), newGraph(links("command a<b", "command b<a", "event c<lost", "command a"))} {
		g.more = true
		if err := s.Output.Validate(json.RawMessage(must(g.json()))); err != nil {
			t.Error(err)
		}
	}
	if err := s.Output.Validate(json.RawMessage(`"graph TD"`)); err != nil {
		t.Error(err)
	}
}

// deep is a chain of messages, each caused by the one before.
func deep(n int) []node {
	nodes := make([]node, n)
	for i := range nodes {
		nodes[i] = node{seq: uint64(i + 1), at: int64(i), kind: message.KindCommand, typ: "Test.Run", id: message.ID(fmt.Sprint("message-", i))}
		if i > 0 {
			nodes[i].causation = nodes[i-1].id
		}
	}
	return nodes
}

// shapes are workflows of n messages as no program should make them.
func shapes(n int) map[string][]node {
	wide, ring, same, lost := deep(n), deep(n), deep(n), deep(n)
	ring[0].causation = ring[n-1].id
	for i := range n {
		if i > 0 {
			wide[i].causation = wide[0].id
		}
		same[i].id, same[i].causation = "same", "same"
		lost[i].causation = message.ID(fmt.Sprint("lost-", i))
	}
	return map[string][]node{"deep": deep(n), "wide": wide, "ring": ring, "same": same, "lost": lost}
}

func TestDeepAndWideWorkflows(t *testing.T) {
	for _, nodes := range shapes(1000) {
		checkFormats(t, newGraph(nodes))
	}
	const n = 20_000
	for name, nodes := range shapes(n) {
		for format, text := range formats(newGraph(nodes)) {
			if lines := bytes.Count(text, []byte("\n")); format != "json" && lines < n || len(text) > n*400 {
				t.Errorf("%s as %s has %d lines and %d bytes", name, format, lines, len(text))
			}
		}
	}
}

func TestDeepLinesSayHowDeepTheyAre(t *testing.T) {
	lines := strings.Split(string(newGraph(deep(40)).tree()), "\n")
	if got := lines[39]; !strings.HasPrefix(got, "⋯14 "+strings.Repeat("   ", maxIndent)+"└─ ▶ Test.Run") {
		t.Errorf("got %q", got)
	}
}

func TestShortTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{shorten("abc", 3), "abc"},
		{shorten("abcdefgh", 5), "ab…gh"},
		{shorten("äöüäöü", 6), "äöüäöü"},
		{shorten("äöüäöüä", 6), "äö…öüä"},
		{truncate("abc", 3), "abc"},
		{truncate("abcd", 3), "ab…"},
		{truncate("äöüß", 3), "äö…"},
		{shortly(0), "0ms"},
		{shortly(999 * time.Millisecond), "999ms"},
		{shortly(1400 * time.Millisecond), "1.40s"},
		{shortly(75 * time.Second), "75.0s"},
		{shortly(10 * time.Minute), "10min"},
		{shortly(50 * time.Hour), "50h"},
		{shortly(240 * time.Hour), "10d"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// FuzzGraph makes graphs of lines: an id, a cause, a kind, a type and a text each.
func FuzzGraph(f *testing.F) {
	f.Add("a\t\tcommand\tTest.Run\t\nb\ta\terror\tTest.Run\tfailed")
	f.Add("a\tb\tcommand\tX\t\nb\ta\treply\tX\t\na\ta\tquery\tX\t")
	for _, id := range hostileIDs {
		f.Add("x\t" + id + "\terror\t" + id + "\t" + id)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kinds := []message.Kind{"command", "query", "event", "reply", "error"}
		var nodes []node
		for i, line := range strings.Split(text, "\n") {
			parts := append(strings.Split(line, "\t"), "", "", "", "", "")
			kind := message.Kind(parts[2])
			if !slices.Contains(kinds, kind) {
				kind = kinds[len(parts[2])%5]
			}
			nodes = append(nodes, node{seq: uint64(i + 1), at: int64(i), kind: kind, id: message.ID(parts[0]), causation: message.ID(parts[1]),
				typ: message.Type(parts[3]), code: 400, text: parts[4]})
		}
		checkFormats(t, newGraph(nodes))
	})
}

func BenchmarkGraph(b *testing.B) {
	nodes := deep(10_000)
	for i := range nodes {
		nodes[i].kind = []message.Kind{"command", "query", "event", "reply", "error"}[i%5]
		if i > 2 {
			nodes[i].causation = nodes[i/3].id
		}
	}
	for _, format := range []string{"mermaid", "dot", "tree", "json"} {
		b.Run(format, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g := newGraph(slices.Clone(nodes))
				switch format {
				case "mermaid":
					g.chart(&mermaid)
				case "dot":
					g.chart(&graphviz)
				case "tree":
					g.tree()
				case "json":
					must(g.json())
				}
			}
		})
	}
}
