package main

import (
	"bytes"
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"kernos/capability/lifecycle"
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
				w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
				for _, e := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\n", visible.Text(string(e.Type)), e.Kind, visible.Text(e.Summary))
				}
				return exit.Wrap(w.Flush())
			})
		},
	}
}

// catalog asks for all syscalls, and sorts them.
func catalog(ctx context.Context, call caller) ([]lifecycle.Entry, error) {
	data, err := request.Send(ctx, call, message.KindQuery, "Kernel.Modules", struct{}{}, nil)
	if err != nil {
		return nil, err
	}
	var reply lifecycle.Catalog
	if err := stdjson.Unmarshal(data, &reply); err != nil {
		return nil, exit.Wrap(fmt.Errorf("the answer of Kernel.Modules can't be read: %w", err))
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
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("say which syscall: kernos describe TYPE; kernos ls lists them")
			}
			return nil
		},
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
		Input, Output jsontext.Value
	}
	if err := json.Unmarshal(data, &described, json.MatchCaseInsensitiveNames(true)); err != nil {
		return exit.Wrap(fmt.Errorf("the answer of Syscall.Describe can't be read: %w", err))
	}
	all, err := catalog(ctx, call)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s (%s)\n", visible.Text(name), described.Kind)
	// An alias has none.
	if i := slices.IndexFunc(all, func(e lifecycle.Entry) bool { return string(e.Type) == name }); i >= 0 {
		fmt.Fprintln(w, visible.Text(all[i].Summary))
	}
	for _, part := range []struct {
		title string
		text  jsontext.Value
	}{{"Input", described.Input}, {"Output", described.Output}} {
		fmt.Fprintf(w, "\n%s:\n", part.title)
		describeFields(w, part.text)
	}
	return exit.Wrap(w.Flush())
}

// field is what is shown of one property of a schema, or of a schema that has none.
type field struct {
	Type        string         `json:"type"`
	Description string         `json:"description"`
	Enum        []any          `json:"enum"`
	Properties  jsontext.Value `json:"properties"`
	Required    []string       `json:"required"`
	Ref         string         `json:"$ref"`
	Definitions definitions    `json:"$defs"`
}

// definitions are the parts of a schema that others refer to, by name.
type definitions map[string]jsontext.Value

// readField reads a schema as far as it can be shown in a line, and what it refers to. What
// it can't read is shown as any value.
func readField(text jsontext.Value, known definitions) field {
	var f field
	if err := json.Unmarshal(text, &f); err != nil {
		f = field{}
	}
	if name, ok := strings.CutPrefix(f.Ref, "#/$defs/"); ok && known[name] != nil {
		target := readField(known[name], nil)
		target.Description = cmp.Or(f.Description, target.Description)
		return target
	}
	if f.Type == "" {
		f.Type = "any"
	}
	if len(f.Enum) > 0 {
		f.Type = fmt.Sprintf("%s %v", f.Type, f.Enum)
	}
	return f
}

// describeFields shows the properties of a schema in the order that it has them.
func describeFields(w io.Writer, text jsontext.Value) {
	s := readField(text, nil)
	if s.Properties == nil {
		fmt.Fprintf(w, "  %s\t%s\n", s.Type, visible.Text(s.Description))
		return
	}
	d := jsontext.NewDecoder(bytes.NewReader(s.Properties))
	_, _ = d.ReadToken()
	none := true
	for d.PeekKind() == '"' {
		none = false
		name, _ := d.ReadToken()
		title := name.String()
		value, _ := d.ReadValue()
		need := "optional"
		if slices.Contains(s.Required, title) {
			need = "required"
		}
		f := readField(value, s.Definitions)
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", visible.Text(title), visible.Text(f.Type), need, visible.Text(f.Description))
	}
	if none {
		fmt.Fprintln(w, "  nothing")
	}
}
