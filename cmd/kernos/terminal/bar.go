package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"

	"kernos/internal/visible"
)

// A Bar shows the progress of a call on a terminal. Elsewhere it shows nothing.
type Bar struct {
	out   io.Writer
	width int // of the terminal; 0 if out isn't one
	drawn bool
}

// NewBar returns a bar that is drawn on out.
func NewBar(out io.Writer) *Bar {
	b := &Bar{out: out}
	if os.Getenv("TERM") != "dumb" {
		b.width = widthOf(out)
	}
	return b
}

// Show draws the bar again. The fraction is nil if it isn't known.
func (b *Bar) Show(note string, fraction *float64) {
	if b.width == 0 {
		return
	}
	b.drawn = true
	fmt.Fprint(b.out, "\r"+barLine(note, fraction, b.width-1)+"\x1b[K")
}

// barCells is the width of the bar itself.
const barCells = 24

// barLine is the bar as it looks on a terminal of this width.
func barLine(note string, fraction *float64, width int) string {
	note = visible.Text(note)
	if fraction == nil {
		return Clip("… "+note, width)
	}
	part := min(max(*fraction, 0), 1)
	full := int(part*barCells + 0.5)
	return Clip(fmt.Sprintf("[%s%s] %3.0f%% %s", strings.Repeat("█", full), strings.Repeat("░", barCells-full), part*100, note), width)
}

// Clear removes the bar, so that something else can be written in its place.
func (b *Bar) Clear() {
	if b.drawn {
		fmt.Fprint(b.out, "\r\x1b[K")
		b.drawn = false
	}
}
