package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kernos/capability/history"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/journal"
	"kernos/message"
)

// graphFormats are the formats of Message.Graph.
var graphFormats = []string{"tree", "mermaid", "dot", "json"}

func graphCommand(open opener) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "graph CORRELATION",
		Short: "Draw a workflow: what caused what, and how long it took",
		Long: `Draw the messages of a workflow as a graph of causes and effects. The workflow is
named by the correlation of its messages, or by the id of the message that began it.

The tree has a line for each message: ▶ command, ? query, ◆ event, ✓ reply, ✗ error, and
◌ for a cause that the journal does not have. A reply has the time that it took, anything
else the time since its cause. The other formats are for programs: mermaid for
documents and https://mermaid.live, dot for Graphviz, json for everything else. In a
terminal the format is tree, otherwise mermaid.`,
		Example: `  kernos graph req-7
  kernos graph req-7 > flow.mmd
  kernos graph req-7 --format dot | dot -Tsvg > flow.svg
  kernos graph req-7 --format json | jq '.nodes[] | select(.failed)'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("say which workflow: kernos graph CORRELATION; kernos log --json shows metadata.correlation")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if format != "" && !slices.Contains(graphFormats, format) {
				return fmt.Errorf("--format must be one of %s; got %q", strings.Join(graphFormats, ", "), format)
			}
			return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
				return drawGraph(ctx, call, s, args[0], format)
			})
		},
	}
	c.Flags().StringVar(&format, "format", "", "the `FORM`: tree, mermaid, dot or json (default: tree in a terminal, otherwise mermaid)")
	return c
}

func drawGraph(ctx context.Context, call caller, s *terminal.Screen, correlation, format string) error {
	if format == "" {
		format = "mermaid"
		if s.IsTerminal() {
			format = "tree"
		}
	}
	input := map[string]string{"correlationId": correlation, "format": format}
	data, err := ask(ctx, call, message.KindQuery, "Message.Graph", input, nil)
	if unfit(err) {
		data, err = drawHere(ctx, call, s, correlation, format)
	}
	if err != nil {
		return err
	}
	if format == "json" {
		return s.Line(string(data))
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the answer of Message.Graph can't be read: %w", err)}
	}
	if format != "tree" {
		_, err = fmt.Fprint(s.Out, text)
		return exit.Wrap(err)
	}
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		b.WriteString(treeLine(s, visible.Text(strings.TrimSuffix(line, "\n"))))
		b.WriteByte('\n')
	}
	_, err = s.Out.Write(b.Bytes())
	return exit.Wrap(err)
}

// drawHere draws a graph that does not fit into one answer: the messages of the workflow come
// one at a time.
func drawHere(ctx context.Context, call caller, s *terminal.Screen, correlation, format string) (json.RawMessage, error) {
	var entries []journal.Entry
	var d message.Decoder
	unread := 0
	r := replayRequest{CorrelationID: correlation, Limit: history.MaxNodes}
	data, err := ask(ctx, call, message.KindQuery, "Message.Replay", r, func(event message.Message) {
		if event.Type != "Message.Replayed" {
			return
		}
		var m shown
		err := json.Unmarshal(event.Data, &m)
		recorded, rejection := d.Decode(m.Message)
		if err != nil || rejection != nil { // it does not fit into a line either
			unread++
			return
		}
		if recorded.Kind != message.KindError {
			recorded.Data = nil // nobody draws it
		}
		entries = append(entries, journal.Entry{Seq: m.Seq, At: m.At, Message: recorded.Clone()})
	})
	if err != nil {
		return nil, err
	}
	var reply struct {
		More    bool
		Dropped struct {
			gap
			Why string
		}
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return nil, &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the answer of Message.Replay can't be read: %w", err)}
	}
	if unread > 0 {
		s.Note("%s too long to be read, and not drawn", terminal.Count(unread, "message is", "messages are"))
	}
	missing := &reply.Dropped
	return history.Draw(entries, reply.More, journal.Dropped{
		Messages: missing.Messages, At: missing.Until, Why: missing.Why,
		Lost: missing.Lost, LostSince: missing.LostSince, LostUntil: missing.LostUntil,
	}, format)
}

// treeLine cuts a line of a tree to the width of the screen and paints its sign.
func treeLine(s *terminal.Screen, line string) string {
	if s.IsTerminal() {
		line = terminal.Clip(line, s.Width)
	}
	if !s.Colour {
		return line
	}
	// The sign is behind the branches.
	at := strings.IndexFunc(line, func(r rune) bool { return !strings.ContainsRune("│├└─ ⋯0123456789", r) })
	if at < 0 {
		return line
	}
	for _, k := range kinds {
		if rest, ok := strings.CutPrefix(line[at:], k.glyph); ok {
			branch := s.Paint(terminal.Faint, line[:at])
			if k.style == terminal.Red {
				return branch + s.Paint(terminal.Red, line[at:])
			}
			return branch + s.Paint(k.style, k.glyph) + rest
		}
	}
	return s.Paint(terminal.Faint, line) // a message that is missing, a remark
}
