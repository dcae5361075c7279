package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
)

func lsCommand(k *kernels) *cobra.Command {
	return k.lists(&cobra.Command{
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
		ValidArgsFunction: k.completesFirst(line.KnownModules),
	}, "table", func(ctx context.Context, a *answer) (bool, error) {
		all, err := line.Catalog(ctx, a.call)
		if err == nil && len(a.args) > 0 {
			all, err = line.OfModule(all, a.args[0])
		}
		if err != nil {
			return false, err
		}
		return len(a.args) == 0, a.writeValue(ctx, all, func() error { return line.ListSyscalls(all, a.screen) })
	})
}

func describeCommand(k *kernels) *cobra.Command {
	return k.lists(&cobra.Command{
		Use:   "describe TYPE",
		Short: "Say what a syscall takes and gives",
		Long: `Say what a syscall takes and gives. It is named as in a call: Memory.Get, memory.get,
memory_get or memory get. --json prints what Syscall.Describe replies.`,
		Example:           "  kernos describe Echo\n  kernos describe memory get\n  kernos describe Echo --jq .input",
		Args:              arguments(1, 2, "name the syscall: kernos describe TYPE; kernos ls lists them"),
		ValidArgsFunction: k.completesFirst(line.KnownTypes),
	}, "text", func(ctx context.Context, a *answer) (bool, error) {
		d, err := line.Describe(ctx, a.call, strings.Join(a.args, " "))
		if err != nil {
			return false, err
		}
		return false, a.write(ctx, d.Reply, func(*answer, json.RawMessage) error { return d.Show(a.screen) })
	})
}
