package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kernos/capability/lifecycle"
	"kernos/client"
	"kernos/cmd/kernos/callline"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/message"
)

func lsCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the syscalls",
		Long: `List the syscalls that the daemon serves, those included that other programs have
registered; or, if none is running, those of kernos itself.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
				all, err := catalog(ctx, call)
				if err != nil {
					return err
				}
				rows := make([][]string, len(all))
				for i, e := range all {
					rows[i] = []string{visible.Text(string(e.Type)), string(e.Kind), visible.Text(e.Summary)}
				}
				return s.Table(nil, rows)
			})
		},
	}
}

// catalog asks for all syscalls, and sorts them.
func catalog(ctx context.Context, call caller) ([]lifecycle.Entry, error) {
	var reply lifecycle.Catalog
	if err := request.Read(ctx, call, message.KindQuery, "Kernel.Modules", struct{}{}, &reply); err != nil {
		return nil, err
	}
	var all []lifecycle.Entry
	for _, m := range reply.Modules {
		all = append(all, m.Syscalls...)
	}
	slices.SortFunc(all, func(a, b lifecycle.Entry) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return all, nil
}

func describeCommand(open opener) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "describe TYPE",
		Short:   "Say what a syscall takes and gives",
		Example: "  kernos describe Echo\n  kernos describe Echo --json | jq .input",
		Args:    one("say which syscall: kernos describe TYPE; kernos ls lists them"),
		RunE: func(c *cobra.Command, args []string) error {
			return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
				return describe(ctx, call, s, args[0], asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what Syscall.Describe replies")
	return c
}

func describe(ctx context.Context, call caller, s *terminal.Screen, name string, asJSON bool) error {
	data, err := request.Send(ctx, call, message.KindQuery, "Syscall.Describe", map[string]string{"name": name}, nil)
	if status, ok := errors.AsType[*exit.Error](err); ok && status.Status == exit.Failure {
		return &exit.Error{Status: exit.Unknown, Cause: status.Cause} // it is all that can be wrong
	}
	if err != nil {
		return err
	}
	if asJSON {
		return s.JSON(data)
	}

	var described struct {
		Kind          message.Kind
		Input, Output json.RawMessage
	}
	if err := request.Decode("Syscall.Describe", data, &described); err != nil {
		return err
	}
	all, err := catalog(ctx, call)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s (%s)", visible.Text(name), described.Kind)
	// An alias has none.
	if i := slices.IndexFunc(all, func(e lifecycle.Entry) bool { return string(e.Type) == name }); i >= 0 {
		text += "\n" + visible.Text(all[i].Summary)
	}
	if err := s.Line(text + "\n\nInput:"); err != nil {
		return err
	}
	if err := s.Table(nil, describeFields(described.Input)); err != nil {
		return err
	}
	if err := s.Line("\nOutput:"); err != nil {
		return err
	}
	return s.Table(nil, describeFields(described.Output))
}

// describeFields lists the properties of a schema in the order that it has them.
func describeFields(schema json.RawMessage) (rows [][]string) {
	row := func(f *client.Field, need string) {
		kind := cmp.Or(strings.Join(f.Types, " or "), "any")
		if words := callline.Values(f); words != nil {
			kind += fmt.Sprintf(" %v", words)
		}
		rows = append(rows, []string{"  " + visible.Text(f.Name), visible.Text(kind), need, visible.Text(f.Description)})
	}
	root := client.ReadField(schema)
	for _, f := range root.Fields {
		need := "optional"
		if f.Required {
			need = "required"
		}
		row(f, need)
	}
	switch {
	case len(rows) > 0:
	case root.Is("object"):
		rows = [][]string{{"  nothing"}}
	default:
		row(root, "")
	}
	return rows
}
