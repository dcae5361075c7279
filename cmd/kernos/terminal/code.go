package terminal

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// A language is what tells the strings and the comments of a program apart from the rest.
type language struct {
	names   []string // as they stand after the fence
	comment string   // begins a comment, which ends with its line
	block   bool     // there are /* comments */, too
	quotes  string   // begin and end strings
}

// languages are those whose blocks are coloured. Blocks of others have one colour.
var languages = []language{
	{names: []string{"go", "golang", "js", "javascript", "jsx", "mjs", "ts", "typescript", "tsx"}, comment: "//", block: true, quotes: "\"'`"},
	{names: []string{"c", "h", "cpp", "c++", "cs", "csharp", "java", "kotlin", "swift", "php", "dart", "scala", "json5", "jsonc"}, comment: "//", block: true, quotes: `"'`},
	{names: []string{"rust", "rs", "zig", "proto"}, comment: "//", block: true, quotes: `"`}, // 'a is a lifetime
	{names: []string{"sh", "bash", "zsh", "fish", "shell", "console", "python", "py", "ruby", "rb", "perl", "r", "yaml", "yml", "toml", "make", "makefile", "dockerfile", "elixir", "julia", "nix", "conf"}, comment: "#", quotes: `"'`},
	{names: []string{"sql", "lua", "haskell", "hs", "ada"}, comment: "--", quotes: `"'`},
	{names: []string{"json", "ndjson"}, quotes: `"`},
	{names: []string{"css", "scss"}, block: true, quotes: `"'`},
}

// coloured returns the lines of a program, broken at a width, with the colours of its strings, comments and numbers.
func (s *Screen) coloured(name, program string, width int) []string {
	styles := make([]Style, len(program)) // of each byte
	i := slices.IndexFunc(languages, func(l language) bool { return slices.Contains(l.names, strings.ToLower(name)) })
	if i < 0 {
		for at := range styles {
			styles[at] = Cyan
		}
	} else {
		for at := 0; at < len(program); {
			n, style := languages[i].token(program, at)
			for end := at + n; at < end; at++ {
				styles[at] = style
			}
		}
	}
	var lines []string
	at := 0
	for line := range strings.SplitSeq(ansi.Hardwrap(program, width, true), "\n") {
		var b strings.Builder
		for begin, end := at, at+len(line); begin < end; {
			next := begin + 1
			for next < end && styles[next] == styles[begin] {
				next++
			}
			b.WriteString(s.Paint(styles[begin], program[begin:next]))
			begin = next
		}
		lines = append(lines, b.String())
		if at += len(line); at < len(program) && program[at] == '\n' { // otherwise the line is broken here
			at++
		}
	}
	return lines
}

// token returns the length and the style of what stands at a place of a program.
func (l *language) token(program string, at int) (int, Style) {
	rest := program[at:]
	first, size := utf8.DecodeRuneInString(rest)
	begins := at == 0 || strings.ContainsAny(program[at-1:at], " \t\n;{}(),") // $# and http:// aren't comments
	switch {
	case l.comment != "" && begins && strings.HasPrefix(rest, l.comment):
		line, _, _ := strings.Cut(rest, "\n")
		return len(line), Faint
	case l.block && strings.HasPrefix(rest, "/*"):
		if end := strings.Index(rest[2:], "*/"); end >= 0 {
			return end + 4, Faint
		}
		return len(rest), Faint
	case strings.ContainsRune(l.quotes, first):
		if n := quoted(rest); n > 0 {
			return n, Green
		}
	case unicode.IsLetter(first) || first == '_' || unicode.IsDigit(first):
		n := strings.IndexFunc(rest, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && !(r == '.' && unicode.IsDigit(first))
		})
		if n < 0 {
			n = len(rest)
		}
		if unicode.IsDigit(first) {
			return n, Yellow
		}
		return n, Plain
	}
	return size, Plain
}

// quoted returns the length of the string that a text begins with; 0 if it isn't closed. Strings in ` and in three quotes
// may have several lines.
func quoted(text string) int {
	quote := text[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text, triple) {
		if end := strings.Index(text[3:], triple); end >= 0 {
			return end + 6
		}
		return 0
	}
	if quote == "`" {
		if end := strings.IndexByte(text[1:], '`'); end >= 0 {
			return end + 2
		}
		return 0
	}
	for i := 1; i < len(text) && text[i] != '\n'; i++ {
		switch text[i] {
		case '\\':
			i++
		case quote[0]:
			return i + 1
		}
	}
	return 0
}
