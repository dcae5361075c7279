package terminal

import (
	"slices"
	"strings"
)

// widestCell is how wide a cell of a table may be on a terminal that has no room for all.
const widestCell = 60

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
		return s.Line(s.Paint(st, strings.TrimRight(strings.Join(cells, "  "), " ")))
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

// squeeze makes the columns of a table fit the terminal, if it is too narrow: none is very
// wide then, and the last has what the others leave.
func (s *Screen) squeeze(widths []int) {
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	if total <= s.Width || len(widths) == 0 {
		return
	}
	last := len(widths) - 1
	left := s.Width - 2*last
	for i := range last {
		widths[i] = min(widths[i], widestCell)
		left -= widths[i]
	}
	widths[last] = min(widths[last], max(left, NarrowestCell))
}

// NarrowestCell is how narrow the last column of a table may become.
const NarrowestCell = 20
