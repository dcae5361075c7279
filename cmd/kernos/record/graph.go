package record

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"time"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/message"
	"kernos/message/mark"
)

// Formats are the formats of a graph.
var Formats = []string{"tree", "mermaid", "dot", "json"}

// A GraphRequest is the input of Message.Graph.
type GraphRequest struct {
	CorrelationID string            `json:"correlationId"`
	Format        string            `json:"format"`
	Principal     oneOrMore[string] `json:"principal,omitempty"`
}

// Graph draws a workflow. The default format is tree on a terminal, and mermaid elsewhere.
func (l *Listing) Graph(ctx context.Context, r GraphRequest) error {
	s, format := l.screen, r.Format
	if l.print != nil {
		format = "json"
	} else if format == "" {
		format = "mermaid"
		if s.IsTerminal() {
			format = "tree"
		}
	}
	r.Format = format
	data, err := server.Send(ctx, l.call, message.KindQuery, "Message.Graph", r, nil)
	if err != nil {
		return err
	}
	if l.print != nil {
		return l.print(data)
	}
	var text string
	if err := server.Decode("Message.Graph", data, &text); err != nil {
		return err
	}
	if format != "tree" {
		return s.Write(text)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(treeLine(s, localTime(s, visible.Text(strings.TrimSuffix(line, "\n")))))
		b.WriteByte('\n')
	}
	return s.Write(b.String())
}

// treeTime finds the time at which a workflow began in a line of a tree.
var treeTime = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`  (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})Z  `)
})

// localTime shows the time in a line of a tree as tables show times: in the time zone of the screen.
func localTime(s *terminal.Screen, line string) string {
	span := treeTime().FindStringSubmatchIndex(line)
	if span == nil {
		return line
	}
	at, err := time.Parse("2006-01-02 15:04:05.000", line[span[2]:span[3]])
	if err != nil {
		return line
	}
	return line[:span[2]] + clock(s, at.UnixMilli()) + line[span[3]+len("Z"):]
}

// treeLine cuts a line of a tree to the width of the screen and paints its sign.
func treeLine(s *terminal.Screen, line string) string {
	if s.IsTerminal() {
		line = terminal.Clip(line, s.Width)
	}
	if !s.Colour {
		return line
	}
	// The sign follows the branches.
	at := strings.IndexFunc(line, func(r rune) bool { return !strings.ContainsRune("│├└─ ⋯0123456789", r) })
	if at < 0 {
		return line
	}
	for kind, k := range mark.Of {
		if rest, ok := strings.CutPrefix(line[at:], k.Sign); ok {
			branch := s.Paint(terminal.Faint, line[:at])
			if kind == message.KindError {
				return branch + s.Paint(terminal.Red, line[at:])
			}
			return branch + s.Paint(terminal.Style(k.Terminal), k.Sign) + rest
		}
	}
	if strings.HasPrefix(line[at:], mark.Claim) {
		return s.Paint(terminal.Faint, line[:at]) + s.Paint(terminal.Red, line[at:])
	}
	return s.Paint(terminal.Faint, line) // a missing message, or a remark
}
