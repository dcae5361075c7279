package terminal

import (
	"fmt"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"kernos/internal/visible"
)

// SplitMarkdown returns the beginning of a text that grows whose blocks are complete, and the rest. A block
// is complete when a line that isn't indented follows the empty line after it.
func SplitMarkdown(text string) (whole, rest string) {
	fence, cut, afterEmpty := "", 0, false
	for at := 0; at < len(text); {
		line := text[at:]
		if end := strings.IndexByte(line, '\n'); end >= 0 {
			line = line[:end+1]
		}
		trimmed := strings.TrimSpace(line)
		if afterEmpty && fence == "" && trimmed != "" && line[0] != ' ' && line[0] != '\t' {
			cut = at
		}
		if mark := fenceOf(trimmed); fence == "" {
			fence = mark
		} else if mark != "" && strings.HasPrefix(mark, fence) && mark == trimmed {
			fence = ""
		}
		afterEmpty = trimmed == ""
		at += len(line)
	}
	return text[:cut], text[cut:]
}

// fenceOf returns the sign that begins or ends a block of code, if a line has it.
func fenceOf(line string) string {
	for _, sign := range []string{"`", "~"} {
		if rest := strings.TrimLeft(line, sign); len(line)-len(rest) >= 3 {
			return line[:len(line)-len(rest)]
		}
	}
	return ""
}

// WrapText breaks a text that isn't Markdown into lines that fit the screen.
func WrapText(s *Screen, text string) string {
	if !s.IsTerminal() {
		return text
	}
	return ansi.Wrap(visible.Lines(spaced(text)), s.Width, "")
}

// spaced replaces tabs, whose width depends on where they stand.
func spaced(text string) string { return strings.ReplaceAll(text, "\t", "    ") }

// Markdown returns a text as the screen shows it, without a newline at its end. Where the output isn't
// a terminal the text stays as it is.
func Markdown(s *Screen, source string) string {
	if !s.IsTerminal() {
		return strings.TrimRight(source, "\n")
	}
	r := &renderer{screen: s, source: []byte(spaced(source))}
	return strings.Join(r.blocks(newParser().Parse(text.NewReader(r.source)), s.Width, true), "\n")
}

// A renderer makes lines of blocks. Each function takes the number of columns.
type renderer struct {
	screen *Screen
	source []byte
}

// narrowest is how few columns a block gets, however deep it is nested.
const narrowest = 10

func (r *renderer) blocks(parent ast.Node, width int, apart bool) (lines []string) {
	width = max(width, narrowest)
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		block := r.block(n, width)
		if len(lines) > 0 && len(block) > 0 && apart {
			lines = append(lines, "")
		}
		lines = append(lines, block...)
	}
	return lines
}

func (r *renderer) block(n ast.Node, width int) []string {
	switch n := n.(type) {
	case *ast.Heading:
		if !r.screen.Colour { // without colour, the weight of the letters can't mark it
			return wrapped(strings.Repeat("#", n.Level)+" "+r.inline(n, nil), width)
		}
		return wrapped(r.inline(n, []Style{Bold}), width)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return r.code(n, width)
	case *ast.List:
		return r.list(n, width)
	case *ast.Blockquote:
		return prefixed(r.blocks(n, width-2, true), r.screen.Paint(Faint, "│ "), r.screen.Paint(Faint, "│ "))
	case *ast.ThematicBreak:
		return []string{r.screen.Paint(Faint, strings.Repeat("─", min(width, 20)))}
	case *extast.Table:
		return r.table(n, width)
	case *ast.HTMLBlock:
		return wrapped(visible.Lines(strings.TrimSpace(r.raw(n))), width)
	}
	return wrapped(r.inline(n, nil), width)
}

func (r *renderer) raw(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(r.source))
	}
	return b.String()
}

// code returns the lines of a program, which are broken only where the terminal ends.
func (r *renderer) code(n ast.Node, width int) []string {
	language := ""
	if block, ok := n.(*ast.FencedCodeBlock); ok {
		language = string(block.Language(r.source))
	}
	text := strings.TrimRight(visible.Lines(r.raw(n)), "\n")
	return prefixed(r.screen.coloured(language, text, max(width-4, narrowest)), "    ", "    ")
}

func (r *renderer) list(n *ast.List, width int) (lines []string) {
	number := n.Start
	widest := len(strconv.Itoa(number + n.ChildCount() - 1))
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "• "
		if n.IsOrdered() {
			mark = fmt.Sprintf("%*d. ", widest, number) // so that all texts begin in one column
			number++
		}
		indent := strings.Repeat(" ", Columns(mark))
		if len(lines) > 0 && !n.IsTight {
			lines = append(lines, "")
		}
		lines = append(lines, prefixed(r.blocks(item, width-len(indent), !n.IsTight), mark, indent)...)
	}
	return lines
}

func (r *renderer) table(n *extast.Table, width int) []string {
	t := table.New().Border(lipgloss.NormalBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		StyleFunc(func(int, int) lipgloss.Style { return lipgloss.NewStyle().PaddingRight(1) })
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		_, head := row.(*extast.TableHeader)
		var styles []Style
		if head {
			styles = []Style{Bold}
		}
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, strings.ReplaceAll(r.inline(cell, styles), `\|`, "|")) // GitHub has it so in code, too
		}
		if head {
			t.Headers(cells...)
		} else {
			t.Row(cells...)
		}
	}
	if text := t.String(); lipgloss.Width(text) <= width {
		return strings.Split(text, "\n")
	}
	return strings.Split(t.Width(width).String(), "\n")
}

// inline returns the text in a block. Styles are those around it.
func (r *renderer) inline(parent ast.Node, styles []Style) string {
	var b strings.Builder
	write := func(text string, more ...Style) {
		b.WriteString(r.screen.Paint(combined(append(styles, more...)), visible.Text(text)))
	}
	// marked writes what other styles are for, or the signs of Markdown where there are none.
	marked := func(n ast.Node, sign string, style Style) {
		if !r.screen.Colour {
			b.WriteString(sign + r.inline(n, styles) + sign)
			return
		}
		b.WriteString(r.inline(n, append(styles[:len(styles):len(styles)], style)))
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			value := n.Value(r.source)
			if !n.IsRaw() { // text in code is raw
				value = util.UnescapePunctuations(value)
			}
			write(string(value))
			if n.HardLineBreak() {
				b.WriteByte('\n')
			} else if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			write(string(n.Value))
		case *ast.CodeSpan:
			marked(n, "`", Cyan)
		case *ast.Emphasis:
			if n.Level == 1 {
				marked(n, "*", Italic)
			} else {
				marked(n, "**", Bold)
			}
		case *extast.Strikethrough:
			marked(n, "~~", Struck)
		case *ast.Link:
			r.link(&b, r.inline(n, append(styles[:len(styles):len(styles)], Underlined)), string(n.Destination))
		case *ast.Image:
			r.link(&b, "image: "+r.inline(n, styles), string(n.Destination))
		case *ast.AutoLink:
			write(string(n.URL(r.source)), Underlined)
		case *ast.RawHTML:
			for i := range n.Segments.Len() {
				segment := n.Segments.At(i)
				write(string(segment.Value(r.source)))
			}
		default:
			b.WriteString(r.inline(n, styles))
		}
	}
	return b.String()
}

// link writes a text and where it points to: what a person would open has to be seen.
func (r *renderer) link(b *strings.Builder, text, to string) {
	b.WriteString(text)
	if to = visible.Text(to); ansi.Strip(text) != to {
		b.WriteString(r.screen.Paint(Faint, " ("+to+")"))
	}
}

func combined(styles []Style) Style {
	words := make([]string, len(styles))
	for i, s := range styles {
		words[i] = string(s)
	}
	return Style(strings.Join(words, ";"))
}

func wrapped(text string, width int) []string {
	if text == "" {
		return nil
	}
	return strings.Split(lipgloss.Wrap(text, width, ""), "\n") // each line begins and ends its styles
}

// prefixed puts a text before the first line, and another before the others.
func prefixed(lines []string, first, others string) []string {
	for i := range lines {
		if i == 0 {
			lines[i] = first + lines[i]
		} else {
			lines[i] = strings.TrimRight(others+lines[i], " ")
		}
	}
	return lines
}
