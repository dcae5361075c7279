package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"kernos/internal/visible"
)

// A Bar shows the progress of a call on a terminal. Elsewhere it shows nothing.
type Bar struct {
	out   io.Writer
	width int // width of the terminal; 0 if out isn't one
	drawn bool

	// The first known fraction and its time: the time that is left follows from how far the work
	// has come since.
	first   float64
	started time.Time
	now     func() time.Time
}

// NewBar returns a bar that is drawn on out.
func NewBar(out io.Writer) *Bar {
	b := &Bar{out: out, now: time.Now}
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
	fmt.Fprint(b.out, "\r"+barLine(note, fraction, b.left(fraction), b.width-1)+"\x1b[K")
}

// left estimates how long the rest will take at the speed so far; 0 if there is no estimate yet.
func (b *Bar) left(fraction *float64) time.Duration {
	if fraction == nil || *fraction <= 0 {
		return 0
	}
	now := b.now()
	if b.started.IsZero() || *fraction < b.first {
		b.first, b.started = *fraction, now
	}
	took := now.Sub(b.started)
	if *fraction <= b.first || *fraction >= 1 || took < time.Second {
		return 0
	}
	return time.Duration(float64(took) * (1 - *fraction) / (*fraction - b.first)).Round(time.Second)
}

// barCells is the width of the bar itself.
const barCells = 24

// barLine returns the bar as it looks on a terminal of this width.
func barLine(note string, fraction *float64, left time.Duration, width int) string {
	note = visible.Text(note)
	if fraction == nil {
		return Clip("… "+note, width)
	}
	part := min(max(*fraction, 0), 1)
	full := int(part*barCells + 0.5)
	if left > 0 {
		note = left.String() + " left  " + note
	}
	return Clip(fmt.Sprintf("[%s%s] %3.0f%% %s", strings.Repeat("█", full), strings.Repeat("░", barCells-full), part*100, note), width)
}

// Clear removes the bar, so that something else can be written in its place. What is shown later is the progress of
// something else.
func (b *Bar) Clear() {
	b.started = time.Time{}
	if b.drawn {
		fmt.Fprint(b.out, "\r\x1b[K")
		b.drawn = false
	}
}
