package terminal

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// newParser returns a parser of CommonMark with the tables and the struck text of GitHub. The
// package goldmark/extension has them too, and much else: it and the renderer of HTML compile
// regular expressions at every start of a process, 1.2 ms and 280 KB, also of those that show none.
func newParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(append(parser.DefaultInlineParsers(), util.Prioritized(strikes{}, 500))...),
		parser.WithParagraphTransformers(append(parser.DefaultParagraphTransformers(), util.Prioritized(tables{}, 200))...),
	)
}

// tables makes a table of the lines of a paragraph, from the first one under which there is a line
// such as |---|:-:| with enough cells.
type tables struct{}

// Transform implements [parser.ParagraphTransformer].
func (tables) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines, source := p.Lines(), reader.Source()
	for i := 1; i < lines.Len(); i++ {
		rule := cellsOf(lines.At(i), source)
		if !isRule(rule, source) || len(cellsOf(lines.At(i-1), source)) > len(rule) {
			continue
		}
		table := extast.NewTable()
		table.AppendChild(table, extast.NewTableHeader(rowOf(lines.At(i-1), source, len(rule))))
		for j := i + 1; j < lines.Len(); j++ {
			table.AppendChild(table, rowOf(lines.At(j), source, len(rule)))
		}
		p.Parent().InsertAfter(p.Parent(), p, table)
		if i == 1 {
			p.Parent().RemoveChild(p.Parent(), p)
			return
		}
		lines.SetSliced(0, i-1)
		last := lines.At(i - 2)
		lines.Set(i-2, last.TrimRightSpace(source))
		return
	}
}

// rowOf returns a row with as many cells as the table has columns.
func rowOf(line text.Segment, source []byte, columns int) *extast.TableRow {
	row, cells := extast.NewTableRow(nil), cellsOf(line, source)
	for i := range columns {
		cell := extast.NewTableCell()
		if i < len(cells) {
			cell.Lines().Append(cells[i])
		}
		row.AppendChild(row, cell)
	}
	return row
}

// cellsOf returns what is between the | of a line.
func cellsOf(line text.Segment, source []byte) (cells []text.Segment) {
	add := func(start, stop int) {
		cell := text.NewSegment(start, stop)
		cell = cell.TrimLeftSpace(source)
		cells = append(cells, cell.TrimRightSpace(source))
	}
	line = line.TrimLeftSpace(source)
	line = line.TrimRightSpace(source)
	start := line.Start
	if start < line.Stop && source[start] == '|' {
		start++
	}
	for at := start; at < line.Stop; at++ {
		switch source[at] {
		case '\\':
			at++
		case '|':
			add(start, at)
			start = at + 1
		}
	}
	if start < line.Stop {
		add(start, line.Stop)
	}
	return cells
}

// isRule reports whether cells are those of the line under the head of a table.
func isRule(cells []text.Segment, source []byte) bool {
	for _, c := range cells {
		dashes := bytes.TrimSuffix(bytes.TrimPrefix(c.Value(source), []byte(":")), []byte(":"))
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) > 0 {
			return false
		}
	}
	return len(cells) > 0
}

// strikes parses ~~struck text~~.
type strikes struct{}

// Trigger implements [parser.InlineParser].
func (strikes) Trigger() []byte { return []byte("~") }

// Parse implements [parser.InlineParser].
func (s strikes) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, at := block.PeekLine()
	sign := parser.ScanDelimiter(line, before, 1, s)
	if sign == nil || sign.OriginalLength > 2 || before == '~' {
		return nil
	}
	sign.Segment = at.WithStop(at.Start + sign.OriginalLength)
	block.Advance(sign.OriginalLength)
	pc.PushDelimiter(sign)
	return sign
}

// IsDelimiter implements [parser.DelimiterProcessor].
func (strikes) IsDelimiter(b byte) bool { return b == '~' }

// CanOpenCloser implements [parser.DelimiterProcessor].
func (strikes) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

// OnMatch implements [parser.DelimiterProcessor].
func (strikes) OnMatch(int) ast.Node { return extast.NewStrikethrough() }
