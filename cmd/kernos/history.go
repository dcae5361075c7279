package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/record"
)

// recorded lists messages, for programs one per line.
func recorded(ctx context.Context, v *line.View) *record.Listing {
	return record.New(v.Call, v.Screen, v.Writer(ctx, true))
}

// historyCommands returns the commands that show what is in the journal, and replay, which may add
// to it.
func historyCommands() []*cobra.Command {
	all := []*cobra.Command{logCommand(), showCommand(), graphCommand(), searchCommand(), replayCommand(), watchCommand()}
	for _, c := range all {
		for flag, values := range map[string]line.Known{"kind": line.KnownKinds, "type": line.KnownPatterns, "correlation": line.KnownWorkflows, "causation": line.KnownIDs, "principal": line.KnownPrincipals} {
			if c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, completes(values))
			}
		}
		switch c.Name() {
		case "show", "graph":
			c.ValidArgsFunction = completesFirst(line.KnownIDs)
		case "replay":
			c.ValidArgsFunction = completesFirst(line.KnownWorkflows)
		}
	}
	return all
}

// maxTable is how many messages a table shows; more are written as they are read.
const maxTable = 10_000

func logCommand() *cobra.Command {
	var filter record.Filter
	var count int
	var follow bool
	c := &cobra.Command{
		Use:   "log [FILTER]",
		Short: "Show recorded messages",
		Long: `Show the latest messages of the journal, the oldest of them first. Each is one
line: when it was recorded, its kind (▶ command, ? query, ◆ event, ✓ reply, ✗ error),
its type, its id and what it says, cut to the width of the terminal. Before that is the
name of the token that it acted for, unless that is the owner. The sign ! marks what a
program only claims: a reply or an error for a request that it was not asked to answer, or
an event that is the kernel's.

A filter is words and names with values, in any order: words have to occur in the message;
the names are kind, type, corr, cause, id, since, until, by and code, as the flags below.
The filter of the console's messages is the same.

--json prints the messages themselves, one per line, as they were recorded, each with the
member record: its number (seq), when it was recorded (at), the caller (principal), the
wire, and whether it is a claim. --jq prints what a filter makes of each. Flags that
select messages can be repeated: a message has one of the values of each. An id can be
used as it is shown: kernos show 01JAX…9E3F1G. --since takes the times that are shown,
too.`,
		Example: `  kernos log                                   # the latest 50
  kernos log kind:error since:1h               # what failed in the last hour
  kernos log 'type:Http.*' milk                # with a word in them
  kernos log --type 'Memory.*' --since 1h
  kernos log --kind error --kind event -n 10
  kernos log --since 09:30 --jq .type
  kernos log --principal ci                    # what the token ci did
  kernos log --correlation req-7 --json | jq .data
  kernos log --jq 'select(.record.claim)'      # what programs only claim
  kernos log -n 0 --json > everything.ndjson   # everything
  kernos log --follow                          # and continue with new ones`,
		Args: func(*cobra.Command, []string) error {
			if count < 0 || count > maxTable {
				return fmt.Errorf("-n must be from 1 to %d, or 0 for all; got %d", maxTable, count)
			}
			return nil
		},
	}
	filterFlags(c, &filter)
	c.Flags().IntVarP(&count, "count", "n", 50, "show at most `N` messages; 0 for all")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "continue with what is recorded from now on, until interrupted")
	return views(c, started, func(ctx context.Context, v *line.View) error {
		filter.Line = strings.Join(v.Args, " ")
		return recorded(ctx, v).Log(ctx, filter, count, follow)
	}, "table")
}

func graphCommand() *cobra.Command {
	var graph record.GraphRequest
	c := &cobra.Command{
		Use:   "graph CORRELATION | ID",
		Short: "Draw a workflow: what caused what, and how long it took",
		Long: `Draw the messages of a workflow as a graph of causes and effects. The workflow is
named by the correlation of its messages, or by the id of any of them, also as kernos log
shows it.

The tree has a line for each message: ▶ command, ? query, ◆ event, ✓ reply, ✗ error, and ◌
for a cause that isn't in the journal; ! marks what a program only claims, which answers
nothing. A reply has the time that it took, anything else the time since its cause. A
message that acted for a token has its name. --principal draws only the messages of some
callers. The other formats are for programs: mermaid for documents and
https://mermaid.live, dot for Graphviz, json for everything else. In a terminal the format
is tree, otherwise mermaid.`,
		Example: `  kernos graph req-7
  kernos graph req-7 > flow.mmd
  kernos graph 01JAX…9E3F1G
  kernos graph req-7 --principal ci
  kernos graph req-7 -o dot | dot -Tsvg > flow.svg
  kernos graph req-7 --json | jq '.nodes[] | select(.failed)'`,
		Args: one("name the workflow: kernos graph CORRELATION, or the id of one of its messages; kernos log lists them"),
	}
	principalFlag(c, (*[]string)(&graph.Principal))
	views(c, started, func(ctx context.Context, v *line.View) error {
		graph.CorrelationID, graph.Format = v.Args[0], v.Output().Mode
		return record.New(v.Call, v.Screen, v.Writer(ctx, true)).Graph(ctx, graph)
	}, record.Formats...)
	c.Flags().AddFlag(otherName(c.Flags().Lookup("output"), "format"))
	return c
}

// maxFound is how many messages a search may find.
const maxFound = 1000

func searchCommand() *cobra.Command {
	var filter record.Filter
	var count int
	var mode string
	c := &cobra.Command{
		Use:   "search WORDS…",
		Short: "Find recorded messages by words and by meaning",
		Long: `Find messages in the journal by the words in them and by what they mean, the best
first. A line begins with how good the message is and why it was found: ~0.53 is how near
its meaning is to that of the query (1 is the same), and the words are those of the query
that it has. Messages that have all words, or all names, codes and ids among them, come
first. --mode words goes by words only, --mode meaning by meaning only. The flags narrow
the search.

--json prints the messages as kernos log does, one per line, the best first.`,
		Example: `  kernos search timeout fetching invoice
  kernos search 'which fetches were too slow?' --since 7d
  kernos search sealed key --kind error --mode words
  kernos search 'order 4711' --json | jq .metadata.correlation`,
		Args: func(_ *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, " ")) == "" {
				return missing{errors.New("say what to look for: kernos search WORDS…")}
			}
			if count < 1 || count > maxFound {
				return fmt.Errorf("-n must be from 1 to %d, got %d", maxFound, count)
			}
			return nil
		},
	}
	filterFlags(c, &filter)
	c.Flags().IntVarP(&count, "count", "n", 20, "show at most `N` messages")
	c.Flags().StringVar(&mode, "mode", "", "`WHAT` to go by: words, meaning or both (default both)")
	return views(c, started, func(ctx context.Context, v *line.View) error {
		return recorded(ctx, v).Search(ctx, strings.Join(v.Args, " "), mode, filter, count)
	}, "table")
}

func replayCommand() *cobra.Command {
	var execute, queries bool
	var count int
	c := &cobra.Command{
		Use:   "replay CORRELATION | ID",
		Short: "Show a workflow once more, or run it again",
		Long: `Show the messages of a workflow in the order in which they were recorded. The
workflow is named by the correlation of its messages, or by the id of any of them, also as
kernos log shows it.

--execute runs the commands that came from outside again, in order, as a new workflow,
and reports which of them had a different outcome. They change things, as they
did then, and are recorded. Commands with secrets can't be run again, since the journal
doesn't have their data, and are skipped; so are those that concern a connection or the
life of the kernel, such as Syscall.Register without code and Syscall.Shutdown, and those
that were refused. What a token has sent runs with the rights that it has now. The status is 1 if
something came out differently.`,
		Example: `  kernos replay req-7
  kernos replay req-7 --json | jq -c '[.kind, .type]'
  kernos replay req-7 --execute
  kernos replay req-7 --execute --queries --json | jq .different`,
		Args: one("name the workflow: kernos replay CORRELATION, or the id of one of its messages; kernos log lists them"),
		PreRunE: func(*cobra.Command, []string) error {
			if queries && !execute {
				return fmt.Errorf("--queries needs --execute: nothing is run without it")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&execute, "execute", false, "run the workflow's commands again and compare")
	c.Flags().BoolVar(&queries, "queries", false, "run its queries again too")
	c.Flags().IntVarP(&count, "count", "n", 0, "show at most `N` messages")
	return views(c, started, func(ctx context.Context, v *line.View) error {
		return recorded(ctx, v).Replay(ctx, record.ReplayRequest{CorrelationID: v.Args[0], Execute: execute, Queries: queries, Limit: count})
	}, "table")
}

func watchCommand() *cobra.Command {
	var filter record.Filter
	var from uint64
	var count int
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show messages as they are recorded",
		Long: `Show messages as they are recorded, from now on, until interrupted. --from begins
with an earlier message, by its number in the journal, and --since with an earlier
time; what was recorded between then and now comes first, without gap or repeat.

--json prints the messages as kernos log does, one per line.`,
		Example: `  kernos watch
  kernos watch --kind error
  kernos watch --type 'Job.*' --json | jq -c .data
  kernos watch --since 10m
  kernos watch --from 1   # from the beginning`,
		Args: noArguments,
	}
	filterFlags(c, &filter)
	c.Flags().Uint64Var(&from, "from", 0, "begin with the message with this `NUMBER`")
	c.Flags().IntVarP(&count, "count", "n", 0, "end after `N` messages")
	return views(c, started, func(ctx context.Context, v *line.View) error {
		r := record.WatchRequest{Filter: filter, Limit: count}
		if c.Flags().Changed("from") {
			r.From = &from
		}
		return recorded(ctx, v).Watch(ctx, r)
	}, "table")
}

// filterFlags adds the flags that select messages.
func filterFlags(c *cobra.Command, f *record.Filter) {
	flags := c.Flags()
	flags.Func("correlation", "only messages of this `WORKFLOW`", once(&f.Correlation))
	flags.Func("causation", "only messages that the message with this `ID` caused", once(&f.Causation))
	flags.StringSliceVar((*[]string)(&f.Type), "type", nil, "only messages of this `TYPE`, or of a domain: 'Memory.*'; can be repeated")
	flags.StringSliceVar((*[]string)(&f.Kind), "kind", nil, "only messages of this `KIND`: command, query, event, reply or error; can be repeated")
	flags.IntSliceVar((*[]int)(&f.Code), "code", nil, "only errors with this `CODE`; can be repeated")
	principalFlag(c, (*[]string)(&f.Principal))
	flags.Func("since", "only messages recorded since this `TIME`: 1h (ago), 7d, 09:30, '2026-01-31 12:00:00', 2026-01-31T12:00:00Z", once(&f.Since))
	flags.Func("until", "only messages recorded before this `TIME`", once(&f.Until))
}

// principalFlag adds the flag that selects messages by the callers that they acted for.
func principalFlag(c *cobra.Command, to *[]string) {
	c.Flags().StringSliceVar(to, "principal", nil, "only messages that acted for this `CALLER`: owner, or the name or id of a token; can be repeated")
}

// once sets a flag that can't be repeated, because messages have one such value.
func once(to *string) func(string) error {
	return func(text string) error {
		if *to != "" {
			return fmt.Errorf("it is given twice, as %s and %s", *to, text)
		}
		*to = text
		return nil
	}
}

// otherName returns a flag under another name, which no help text lists.
func otherName(f *pflag.Flag, name string) *pflag.Flag {
	other := *f
	other.Name, other.Shorthand, other.Hidden = name, "", true
	return &other
}

func showCommand() *cobra.Command {
	return views(&cobra.Command{
		Use:   "show ID",
		Short: "Show one recorded message, with its cause and its effects",
		Long: `Show one message of the journal: who sent it, when, what it says, which message caused it
and what it caused. The id can be given as kernos log shows it, with … in its middle.

--json prints one object: message, record, cause and effects.`,
		Example: `  kernos show 01JAX…9E3F1G
  kernos show 01JAXV5Y2Z4B8Q0R6T7W9E3F1G --jq '.effects[] | .type'`,
		Args: one("name the message: kernos show ID; kernos log lists them"),
	}, started, func(ctx context.Context, v *line.View) error {
		return record.New(v.Call, v.Screen, v.Writer(ctx, false)).Show(ctx, v.Args[0])
	}, "text")
}
