package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/chat"
	"kernos/cmd/kernos/line"
)

// sessionCommand returns the module session, and how a person reads a session.
func sessionCommand() *cobra.Command {
	c := moduleCommand(&cobra.Command{
		Use:   "session",
		Short: "Conversations: list, read and export them",
		Long: `kernos chat talks in a session. kernos session list is a table in a terminal; show is a
session as a person reads it, and export writes it to a file. An id can be given in the
short form that the table has.`,
		Example: `  kernos session list
  kernos session show 01K9Z…X4V2QD
  kernos session export 01K9Z…X4V2QD > talk.md
  kernos session export 01K9Z…X4V2QD --json > talk.json
  kernos session delete 01K9ZV5Y2Z4B8Q0R6T7WX4V2QD`,
	})
	c.AddCommand(sessionShowCommand(), sessionExportCommand())
	return c
}

func sessionShowCommand() *cobra.Command {
	var plain, reasoning bool
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a session as a person reads it",
		Long: `Show what a session is, and its messages, as kernos chat does: each with its number, which
kernos chat --fork ID@NUMBER takes. Messages that /undo has left behind aren't shown; kernos
session messages has all of them.`,
		Example: `  kernos session show 01K9Z…X4V2QD
  kernos session show 01K9Z…X4V2QD --reasoning`,
		Args:              oneListed("session"),
		ValidArgsFunction: line.CompleteParameter("session", "get"),
	}
	c.Flags().BoolVar(&plain, "plain", false, "show Markdown as it is written")
	c.Flags().BoolVar(&reasoning, "reasoning", false, "show the reasoning of the model, too")
	return views(c, started, func(ctx context.Context, v *line.View) error {
		return exported(ctx, v, func(data json.RawMessage) error {
			return chat.Show(ctx, v.Call, v.Screen, data, plain, reasoning)
		})
	}, "text")
}

func sessionExportCommand() *cobra.Command {
	return views(&cobra.Command{
		Use:   "export ID",
		Short: "Write a session as Markdown, or as JSON",
		Long: `Write a session as a Markdown document. --json writes what Session.Export replies: all of
what the session is, and all its messages, also those that /undo has left behind.`,
		Example: `  kernos session export 01K9Z…X4V2QD > talk.md
  kernos session export 01K9Z…X4V2QD --json | jq .info.used`,
		Args:              oneListed("session"),
		ValidArgsFunction: line.CompleteParameter("session", "get"),
	}, started, func(ctx context.Context, v *line.View) error {
		return exported(ctx, v, func(data json.RawMessage) error { return chat.ExportMarkdown(ctx, v.Call, v.Screen, data) })
	}, "markdown")
}

// exported writes a session with all its messages.
func exported(ctx context.Context, v *line.View, show func(json.RawMessage) error) error {
	data, err := chat.Export(ctx, v.Call, v.Args[0])
	if err != nil {
		return err
	}
	return v.Write(ctx, data, show)
}
