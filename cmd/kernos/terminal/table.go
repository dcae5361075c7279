package terminal

import (
	"slices"
	"strings"
)

// Table writes the rows of a table under their titles.
func (s *Screen) Table(titles []string, rows [][]string) error {
	widths := make([]int, len(titles))
	for _, row := range append(slices.Clone(rows), titles) {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Columns(text))
		}
	}
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
		if err := write(titles, Faint); err != nil {
			return err
		}
	}
	for _, row := range rows {
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

// Explained writes rows whose last cell explains the others: it is broken into lines, and never cut.
func (s *Screen) Explained(rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, text := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Columns(text))
		}
	}
	for _, row := range rows {
		left := ""
		for i, text := range row[:len(row)-1] {
			left += Pad(text, widths[i]) + "  "
		}
		text := left + Hang(row[len(row)-1], Columns(left), s.Width)
		if s.IsTerminal() && Columns(left)+narrowestText > s.Width {
			text = strings.TrimRight(left, " ") + "\n" + strings.Repeat(" ", deepText) + Hang(row[len(row)-1], deepText, s.Width)
		}
		if err := s.Line(strings.TrimRight(text, " \n")); err != nil {
			return err
		}
	}
	return nil
}
