// Package mark is how the kinds of messages are told apart wherever messages are shown to people: in a terminal, in
// drawings of workflows, and in the console, whose style sheet has the same colours (console_test.go compares them).
//
//	m := mark.Of[message.KindEvent]
//	fmt.Printf("\x1b[%sm%s\x1b[0m Memory.Changed\n", m.Terminal, m.Sign)
package mark

import "kernos/message"

// A Mark is a sign and a colour.
type Mark struct {
	Sign string

	Light, Dark string // the colour on a light and on a dark ground
	Fill        string // a light ground of this colour
	Terminal    string // the number of the colour in a terminal
}

// Of has the mark of each kind.
var Of = map[message.Kind]Mark{
	message.KindCommand: {"▶", "#2f5bd7", "#8aa8ff", "#e6ecfb", "34"},
	message.KindQuery:   {"?", "#0e7c86", "#5cc3cc", "#e1f1f2", "36"},
	message.KindEvent:   {"◆", "#7a4fd0", "#b79bf2", "#eee8fa", "35"},
	message.KindReply:   {"✓", "#2c7a3f", "#7ecb8f", "#e3f1e6", "32"},
	message.KindError:   {"✗", "#c2361c", "#ff8a70", "#f9e6e2", "31"},
}

// Claim is the sign of what a program only claims, whatever its kind. It has the colour of errors.
const Claim = "!"
