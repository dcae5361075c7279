package terminal_test

import (
	"strings"
	"testing"

	"kernos/cmd/kernos/terminal"
)

// Strings, comments and numbers of a program have colours. Without colours a program is as it was written.
func TestColoursOfPrograms(t *testing.T) {
	names := strings.NewReplacer("\x1b[2m", "<c>", "\x1b[32m", "<s>", "\x1b[33m", "<n>", "\x1b[36m", "<code>", "\x1b[0m", "</>")
	for _, c := range []struct{ language, program, want string }{
		{"go", `x1 := f("a\"b", 0x1F) // it's 2`, `x1 := f(<s>"a\"b"</>, <n>0x1F</>) <c>// it's 2</>`},
		{"go", "a /* one\ntwo */ b", "a <c>/* one</>\n<c>two */</> b"},
		{"JS", "`a\nb` // http://x/", "<s>`a</>\n<s>b`</> <c>// http://x/</>"},
		{"sh", `echo $# "don't" it's # no`, `echo $# <s>"don't"</> it's <c># no</>`},
		{"python", "x = \"\"\"a\n# b\"\"\" # c", "x = <s>\"\"\"a</>\n<s># b\"\"\"</> <c># c</>"},
		{"rust", "fn f<'a>(x: &'a str) -> 1.5 {", "fn f<'a>(x: &'a str) -> <n>1.5</> {"},
		{"sql", "select 'a' -- b", "select <s>'a'</> <c>-- b</>"},
		{"json", `{"a": "// b", "c": -1e3}`, `{<s>"a"</>: <s>"// b"</>, <s>"c"</>: -<n>1e3</>}`},
		{"", "don't 1", "<code>don't 1</>"},
		{"go", `f("a string that is so long that it is broken")`, "f(<s>\"a string that is so long that it is b</>\n<s>roken\"</>)"},
	} {
		source := "```" + c.language + "\n" + c.program + "\n```"
		got := names.Replace(terminal.Markdown(&terminal.Screen{Width: 44, Colour: true}, source))
		if want := "    " + strings.ReplaceAll(c.want, "\n", "\n    "); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.language, got, want)
		}
		if got := terminal.Markdown(&terminal.Screen{Width: 80}, source); got != "    "+strings.ReplaceAll(c.program, "\n", "\n    ") {
			t.Errorf("without colours: %s", got)
		}
	}
}

// What is wrapped stands under its text, also in a list with numbers of several digits, and its style ends with each line.
func TestWrappedLinesHang(t *testing.T) {
	source := "9. one two three *four five sixty*\n10. seven eight nine ten\n    - eleven twelve thirteen"
	want := " 9. one two three\n    \x1b[3mfour five\x1b[m\n    \x1b[3msixty\x1b[0m\n10. seven eight\n    nine ten\n    • eleven\n      twelve\n      thirteen"
	if got := terminal.Markdown(&terminal.Screen{Width: 17, Colour: true}, source); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
