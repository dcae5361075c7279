package terminal

import (
	"strings"

	"kernos/internal/visible"
)

// columnsOf returns rows with everything in their cells visible, and the widths of their columns.
func columnsOf(rows [][]string) (shown [][]string, widths []int) {
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			cells[i] = visible.Text(text)
			widths[i] = max(widths[i], Columns(cells[i]))
		}
		shown = append(shown, cells)
	}
	return shown, widths
}

// Table writes the rows of a table under their titles. The cells may come from another server: what a terminal
// would obey in them is written out.
func (s *Screen) Table(titles []string, rows [][]string) error {
	return s.table(titles, rows, func(int, string) Style { return Plain })
}

// table is Table with the style of each cell.
func (s *Screen) table(titles []string, rows [][]string, style func(column int, text string) Style) error {
	shown, widths := columnsOf(append([][]string{titles}, rows...))
	if s.IsTerminal() {
		s.squeeze(titles, widths)
	}
	for n, row := range shown {
		if n == 0 && len(titles) == 0 {
			continue
		}
		var b strings.Builder
		at, last := 0, len(row)-1
		for last > 0 && row[last] == "" {
			last--
		}
		for i, text := range row[:min(last+1, len(row))] {
			width := widths[i]
			if s.IsTerminal() {
				width = min(width, s.Width-at) // the columns may be wider than the terminal
			}
			if width <= 0 {
				break
			}
			st := Faint
			if n > 0 {
				st = style(i, text)
			}
			cell := Clip(text, width)
			b.WriteString(s.Paint(st, cell))
			if at += width + 2; i < last {
				b.WriteString(strings.Repeat(" ", width-Columns(cell)+2))
			}
		}
		if err := s.Line(strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// squeeze makes the columns of a table fit the terminal: the widest become narrower until it does, except for commands,
// which can't be typed if a part of them is missing.
func (s *Screen) squeeze(titles []string, widths []int) {
	over := 2*(len(widths)-1) - s.Width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if i < len(titles) && titles[i] == "COMMAND" {
				continue
			}
			if widest < 0 || w >= widths[widest] { // of equal ones the last, which is the least informative
				widest = i
			}
		}
		if widest < 0 || widths[widest] <= narrowestColumn {
			return
		}
		widths[widest]--
	}
}

// narrowestColumn is how narrow a column of a table may become. A text that is broken into lines has at
// least narrowestText.
const (
	narrowestColumn = 6
	narrowestText   = 20
)

// deepText is how far the lines of an explanation are indented that has no room beside its row.
const deepText = 6

// Explained writes rows whose last cell explains the others: it is broken into lines, and never cut. As in a table,
// everything in the cells is visible.
func (s *Screen) Explained(rows [][]string) error {
	explained := make([][]string, len(rows))
	for i, row := range rows {
		explained[i] = row[:len(row)-1]
	}
	explained, widths := columnsOf(explained)
	for i, row := range rows {
		left, about := "", visible.Text(strings.Join(strings.Fields(row[len(row)-1]), " "))
		for column, text := range explained[i] {
			left += Pad(text, widths[column]) + "  "
		}
		text := left + Hang(about, Columns(left), s.Width)
		if s.IsTerminal() && Columns(left)+narrowestText > s.Width {
			text = strings.TrimRight(left, " ") + "\n" + strings.Repeat(" ", deepText) + Hang(about, deepText, s.Width)
		}
		if err := s.Line(strings.TrimRight(text, " \n")); err != nil {
			return err
		}
	}
	return nil
}
