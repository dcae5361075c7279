package terminal_test

import (
	"strings"
	"testing"

	"kernos/cmd/kernos/terminal"

	"github.com/charmbracelet/x/ansi"
)

const page = `# Tea

Water, *hot*, **very** hot, with a [kettle](https://example.com/kettle) and ~~milk~~ ` + "`sugar`" + `.

1. boil the water in the kettle until it sings a song
2. pour

   - slowly

| what | how much |
|---|---|
| water | half a litre of the water that has sung |

> wait

` + "```go\nfunc main() {\n\tprintln(\"a line that is too long for it\")\n}\n```\n"

const plain = `# Tea

Water, *hot*, **very** hot, with a
kettle (https://example.com/kettle) and
~~milk~~ ` + "`sugar`" + `.

1. boil the water in the kettle until it
   sings a song

2. pour

   • slowly

what  │how much
──────┼─────────────────────────────────
water │half a litre of the water that
      │has sung

│ wait

    func main() {
        println("a line that is too long
     for it")
    }`

func TestRender(t *testing.T) {
	without := terminal.Markdown(&terminal.Screen{Width: 40}, page)
	if got := trimmed(without); got != plain {
		t.Errorf("got\n%s\nwant\n%s", got, plain)
	}
	coloured := terminal.Markdown(&terminal.Screen{Width: 40, Colour: true}, page)
	for _, want := range []string{"\x1b[1mTea\x1b[0m", "\x1b[3mhot\x1b[0m", "\x1b[1mvery\x1b[0m", "\x1b[9mmilk\x1b[0m", "\x1b[36msugar\x1b[0m", "\x1b[4mkettle\x1b[0m"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("%q isn't in\n%s", want, coloured)
		}
	}
	for _, text := range []string{without, coloured} {
		for line := range strings.SplitSeq(text, "\n") {
			if ansi.StringWidth(line) > 40 {
				t.Errorf("%q is too long", line)
			}
		}
	}
	if got := terminal.Markdown(&terminal.Screen{}, page); got != strings.TrimRight(page, "\n") {
		t.Errorf("a file gets\n%s", got)
	}
	if got := terminal.Markdown(&terminal.Screen{Width: 40}, "a\x1b[2Jb `\x1b`"); strings.Contains(got, "\x1b") {
		t.Errorf("the terminal would obey %q", got)
	}
}

func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// Whatever the pieces are in which a text comes, what is complete is rendered as it is in the end.
func TestATextThatGrows(t *testing.T) {
	s := &terminal.Screen{Width: 40}
	var shown []string
	rest := ""
	for i := range page {
		rest += page[i : i+1]
		whole, left := terminal.SplitMarkdown(rest)
		if whole+left != rest {
			t.Fatalf("Split(%q) = %q, %q", rest, whole, left)
		}
		if whole != "" {
			shown = append(shown, terminal.Markdown(s, whole))
		}
		rest = left
	}
	shown = append(shown, terminal.Markdown(s, rest))
	if got, want := strings.Join(shown, "\n\n"), terminal.Markdown(s, page); got != want || len(shown) < 6 {
		t.Errorf("in %d pieces\n%s\nwant\n%s", len(shown), got, want)
	}
	if whole, _ := terminal.SplitMarkdown("```\na\n\nb\n\nc"); whole != "" {
		t.Errorf("a block of code was split after %q", whole)
	}
}

func TestWhatGitHubAdds(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a table after a paragraph", "so:\na|b\n-|-\n1|2", "so:\n\na │b\n──┼──\n1 │2"},
		{"a table in a list and a quote", "- x\n  > |a|\n  > |:-:|\n  > |1|", "• x\n  │ a\n  │ ──\n  │ 1"},
		{"cells too few and too many", "|a|b|\n|-|-|\n|1|\n|1|2|3|", "a │b\n──┼──\n1 │\n1 │2"},
		{"pipes and styles in cells", "|a|\n|---|\n|1 \\| *2* `3 \\| 4`|", "a\n────────────────\n1 | *2* `3 | 4`"},
		{"too few cells in the rule", "|a|b|\n|---|", "|a|b| |---|"},
		{"a rule that isn't one", "a|b\n-|x", "a|b -|x"},
		{"a table without rows", "|a|\n|-|", "a\n──"},
		{"struck text", "~~a b~~ ~c~ ~~~d~~~ ~5 to ~6", "~~a b~~ ~~c~~ ~~~d~~~ ~5 to ~6"},
		{"escaped signs", "1\\. 5 \\* 3 `\\*`", "1. 5 * 3 `\\*`"},
		{"tasks", "- [ ] a\n- [x] b", "• [ ] a\n• [x] b"},
	} {
		if got := trimmed(terminal.Markdown(&terminal.Screen{Width: 40}, test.text)); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}
