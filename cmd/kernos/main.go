// Command kernos is the message kernel for AI agents. See kernos help.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"kernos/cmd/kernos/server"
	"kernos/internal/exit"
	"kernos/internal/visible"
)

func main() {
	server.SetGarbage(server.StartGarbage)
	os.Exit(run(context.Background(), os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	// A pipe into kernos without arguments is meant for kernos pipe. A terminal or /dev/null,
	// the input of programs that have none, isn't a pipe: help is printed.
	if info, err := os.Stdin.Stat(); len(args) == 0 && err == nil && info.Mode()&os.ModeCharDevice == 0 {
		args = []string{"pipe"}
	}
	root := rootCommand()
	root.SetArgs(asModule(root, args))
	helped := checkHelp(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = helped()
	}
	if err == nil {
		return 0
	}
	switch text := err.Error(); {
	case text == "":
	case slices.Contains(args, server.DetachedFlag):
		server.ReportFailure(os.Stderr, err)
	default:
		fmt.Fprintln(os.Stderr, "kernos: "+visible.Lines(text)) // the text may come from another server
	}
	return exit.Status(err)
}
