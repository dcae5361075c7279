package main

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"kernos/kernel"
	"kernos/message"
)

func lsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the syscalls",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := registry()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, t := range r.Types() {
				s, _ := r.Lookup(t)
				fmt.Fprintf(w, "%s\t%s\t%s\n", t, s.Kind, s.Summary)
			}
			return w.Flush()
		},
	}
}

func describeCommand() *cobra.Command {
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
			return describe(c.Context(), c.OutOrStdout(), args[0], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what Syscall.Describe replies")
	return c
}

func describe(ctx context.Context, out io.Writer, name string, asJSON bool) error {
	r, err := registry()
	if err != nil {
		return err
	}
	request := message.Message{Kind: message.KindQuery, Type: "Syscall.Describe"}
	if request.Data, err = stdjson.Marshal(map[string]string{"name": name}); err != nil {
		return err
	}
	k := kernel.New(r, nil)
	k.Stamp(&request)
	var outcome message.Message
	k.Handle(ctx, request, func(m message.Message) { outcome = m })
	if outcome.Kind == message.KindError {
		return &exitStatus{status: statusOf(outcome.Err), cause: outcome.Err}
	}
	if asJSON {
		text := jsontext.Value(outcome.Data)
		if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n", text)
		return err
	}
	s, _ := r.Lookup(message.Type(name))
	fmt.Fprintf(out, "%s (%s)\n%s\n", name, s.Kind, s.Summary)
	for _, part := range []struct {
		title string
		text  stdjson.RawMessage
	}{{"Input", s.Input.JSON()}, {"Output", s.Output.JSON()}} {
		fmt.Fprintf(out, "\n%s:\n", part.title)
		if err := describeFields(out, part.text); err != nil {
			return err
		}
	}
	return nil
}

// describeFields shows the properties of a schema, required ones marked.
func describeFields(out io.Writer, text stdjson.RawMessage) error {
	var s struct {
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if len(s.Properties) == 0 || string(s.Properties) == "{}" {
		fmt.Fprintln(out, "  nothing")
		return nil
	}
	var fields []string
	var byName map[string]struct {
		Type        string `json:"type"`
		Description string `json:"description"`
		Enum        []any  `json:"enum"`
	}
	if err := json.Unmarshal(s.Properties, &byName); err != nil {
		return err
	}
	d := jsontext.NewDecoder(strings.NewReader(string(s.Properties)))
	_, _ = d.ReadToken()
	for d.PeekKind() == '"' {
		name, _ := d.ReadToken()
		fields = append(fields, name.String())
		_ = d.SkipValue()
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range fields {
		f := byName[name]
		kind := f.Type
		if kind == "" {
			kind = "any"
		}
		if len(f.Enum) > 0 {
			kind = fmt.Sprintf("%s %v", kind, f.Enum)
		}
		need := "optional"
		for _, r := range s.Required {
			if r == name {
				need = "required"
			}
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", name, kind, need, f.Description)
	}
	return w.Flush()
}
