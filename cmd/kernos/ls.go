package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/internal/exit"
)

func lsCommand() *cobra.Command {
	return views(&cobra.Command{
		Use:   "ls [MODULE]",
		Short: "List the syscalls",
		Long: `List the syscalls that the daemon serves, or those of one module, those included that
other programs have registered; or, if no daemon is running, those of kernos itself.`,
		Example: "  kernos ls\n  kernos ls memory\n  kernos ls --jq '.[] | select(.kind == \"command\") | .type'",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("kernos ls takes one module, got %q too; see kernos ls --help", args[1])
			}
			return nil
		},
		ValidArgsFunction: completesFirst(line.KnownModules),
	}, readOnly, func(ctx context.Context, v *line.View) error {
		all, err := line.Catalog(ctx, v.Call)
		if err == nil && len(v.Args) > 0 {
			all, err = line.OfModule(all, v.Args[0])
		}
		if err != nil || len(v.Args) == 0 {
			v.NoteLacks()
		}
		if err != nil {
			return err
		}
		data, err := json.Marshal(all)
		if err != nil {
			return exit.Wrap(err)
		}
		return v.Write(ctx, data, func(json.RawMessage) error { return line.ListSyscalls(all, v.Screen) })
	}, "table")
}

func describeCommand() *cobra.Command {
	return views(&cobra.Command{
		Use:   "describe TYPE",
		Short: "Say what a syscall takes and gives",
		Long: `Say what a syscall takes and gives. It is named as in a call: Memory.Get, memory.get,
memory_get or memory get. --json prints what Syscall.Describe replies.`,
		Example:           "  kernos describe Echo\n  kernos describe memory get\n  kernos describe Echo --jq .input",
		Args:              arguments(1, 2, "name the syscall: kernos describe TYPE; kernos ls lists them"),
		ValidArgsFunction: completesFirst(line.KnownTypes),
	}, readOnly, func(ctx context.Context, v *line.View) error {
		data, err := line.Describe(ctx, v.Call, strings.Join(v.Args, " "))
		if err != nil {
			v.NoteLacks()
			return err
		}
		return v.Write(ctx, data, shows(v, "Syscall.Describe", (*line.Description).Show))
	}, "text")
}
