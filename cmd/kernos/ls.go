package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/calling"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/cmd/kernos/syscalls"
	"kernos/internal/visible"
	"kernos/message"
)

func lsCommand(k *kernels) *cobra.Command {
	return k.looks(&cobra.Command{
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
		ValidArgsFunction: k.completesFirst(calling.KnownModules),
	}, "table", func(ctx context.Context, a *answer) (bool, error) {
		all, err := syscalls.Catalog(ctx, a.call)
		if err == nil && len(a.args) > 0 {
			all, err = syscalls.OfModule(all, a.args[0])
		}
		if err != nil {
			return false, err
		}
		return len(a.args) == 0, a.writeValue(ctx, all, func() error {
			rows := make([][]string, len(all))
			for i, e := range all {
				rows[i] = []string{visible.Text(string(e.Type)), string(e.Kind), visible.Text(e.Summary)}
			}
			return a.screen.Table(nil, rows)
		})
	})
}

func describeCommand(k *kernels) *cobra.Command {
	return k.looks(&cobra.Command{
		Use:   "describe TYPE",
		Short: "Say what a syscall takes and gives",
		Long: `Say what a syscall takes and gives. It is named as in a call: Memory.Get, memory.get,
memory_get or memory get. --json prints what Syscall.Describe replies.`,
		Example:           "  kernos describe Echo\n  kernos describe memory get\n  kernos describe Echo --jq .input",
		Args:              arguments(1, 2, "say which syscall: kernos describe TYPE; kernos ls lists them"),
		ValidArgsFunction: k.completesFirst(calling.KnownTypes),
	}, "text", func(ctx context.Context, a *answer) (bool, error) {
		return false, a.describe(ctx, strings.Join(a.args, " "))
	})
}

func (a *answer) describe(ctx context.Context, name string) error {
	all, err := syscalls.Catalog(ctx, a.call)
	if err != nil {
		return err
	}
	name = syscalls.TypeOf(all, name)
	data, err := request.Send(ctx, a.call, message.KindQuery, "Syscall.Describe", map[string]string{"name": name}, nil)
	if status, ok := errors.AsType[*exit.Error](err); ok && status.Status == exit.Failure {
		return &exit.Error{Status: exit.Unknown, Cause: status.Cause} // an unknown name is the only possible failure
	}
	if err != nil {
		return err
	}
	return a.write(ctx, data, func(_ *answer, data json.RawMessage) error { return syscalls.Show(a.screen, data, name, all) })
}
