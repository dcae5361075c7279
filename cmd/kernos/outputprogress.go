package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"kernos/client"
	"kernos/internal/visible"
)

// A progressBar shows on a terminal how far a call is. Elsewhere it shows nothing.
type progressBar struct {
	out   io.Writer
	width int // of the terminal; 0 if there is none
	drawn bool
}

func newProgressBar(out io.Writer) *progressBar {
	b := &progressBar{out: out}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		b.width = 80
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			b.width = columns
		}
	}
	return b
}

// show draws the bar anew.
func (b *progressBar) show(item *client.Item) {
	if b.width == 0 {
		return
	}
	b.drawn = true
	fmt.Fprint(b.out, "\r"+barLine(item.Message, item.Percentage, b.width-1)+"\x1b[K")
}

// barCells is how wide the bar itself is.
const barCells = 24

// barLine is the bar as it is on a terminal of this width.
func barLine(message string, fraction *float64, width int) string {
	message = visible.Text(message)
	if fraction == nil {
		return clip("… "+message, width)
	}
	part := min(max(*fraction, 0), 1)
	full := int(part*barCells + 0.5)
	return clip(fmt.Sprintf("[%s%s] %3.0f%% %s", strings.Repeat("█", full), strings.Repeat("░", barCells-full), part*100, message), width)
}

// clear takes the bar away, so that something else can be written in its place.
func (b *progressBar) clear() {
	if b.drawn {
		fmt.Fprint(b.out, "\r\x1b[K")
		b.drawn = false
	}
}
