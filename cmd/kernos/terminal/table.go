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
	shown, widths := columnsOf(append([][]string{titles}, rows...))
	if s.IsTerminal() {
		s.squeeze(widths)
	}
	write := func(row []string, st Style) error {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = Pad(text, widths[i])
		}
		line := strings.TrimRight(strings.Join(cells, "  "), " ")
		if s.IsTerminal() {
			line = Clip(line, s.Width) // the columns may be wider than the terminal
		}
		return s.Line(s.Paint(st, line))
	}
	if len(titles) > 0 {
		if err := write(shown[0], Faint); err != nil {
			return err
		}
	}
	for _, row := range shown[1:] {
		if err := write(row, Plain); err != nil {
			return err
		}
	}
	return nil
}

// squeeze makes the columns of a table fit the terminal: the widest become narrower until it does.
func (s *Screen) squeeze(widths []int) {
	over := 2*(len(widths)-1) - s.Width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := 0
		for i, w := range widths {
			if w >= widths[widest] { // of equal ones the last, which is the least informative
				widest = i
			}
		}
		if widths[widest] <= narrowestColumn {
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
