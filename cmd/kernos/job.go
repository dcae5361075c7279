package main

import (
	"context"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
)

// jobCommand returns the module job, and what the command line has beyond its methods.
func jobCommand() *cobra.Command {
	c := moduleCommand(&cobra.Command{
		Use:   "job",
		Short: "Work in the background: start, list, cancel and wait for jobs",
		Long: `Every other call becomes a job with --background:

  kernos http fetch https://example.com --background

kernos job list is a table in a terminal, and updates in place with -w. kernos job wait shows
how far the job is, and has the status 1 if the job has failed. An id can be given in the short
form that the table has. kernos job logs shows what a job has said.`,
		Example: `  kernos job start Notify.Send payload:='{"text":"Call mum"}' --at 'tomorrow 09:00'
  kernos job list -w
  kernos job list --status failed --since 24h
  kernos job wait 01K9Z…X4V2QD
  kernos job logs 01K9Z…X4V2QD -f
  kernos job cancel 01K9Z…X4V2QD
  kernos job pause 01K9Z…X4V2QD   # a schedule
  kernos job resume               # what has been waiting since kernos restore`,
	})
	c.AddCommand(jobLogsCommand())
	return c
}

func jobLogsCommand() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "logs ID",
		Short: "Show the log of a job",
		Long: `Show the notes of progress, the events and the log lines of a job, one per line: its last 200. With
--follow, new ones are shown until the job has ended; the status is 1 if it has failed.

--json prints each as an object {at, text}, one per line.`,
		Example: `  kernos job logs 01K9Z…X4V2QD
  kernos job logs 01K9Z…X4V2QD --follow`,
		Args:              oneListed("job"),
		ValidArgsFunction: line.CompleteParameter("job", "status"),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "continue until the job has ended")
	return views(c, started, func(ctx context.Context, v *line.View) error {
		return (&line.JobLog{Call: v.Call, Screen: v.Screen, ID: v.Args[0], Print: v.Writer(ctx, true)}).Show(ctx, follow)
	}, "text")
}
