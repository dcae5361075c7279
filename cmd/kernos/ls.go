package main

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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
			r, err := allSyscalls()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, t := range r.Types() {
				s, _ := r.Lookup(t)
				fmt.Fprintf(w, "%s\t%s\t%s\n", t, s.Kind, s.Summary)
			}
			return failed(w.Flush())
		},
	}
}

// failed is the error for output that can't be written, and the like: it is not the
// command line's fault, unless it has a status that says so.
func failed(err error) error {
	if _, ok := errors.AsType[*exitStatus](err); ok || err == nil {
		return err
	}
	return &exitStatus{status: exitError, cause: err}
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
	r, err := allSyscalls()
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
		return failed(err)
	}
	s, _ := r.Lookup(message.Type(name))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s (%s)\n%s\n", name, s.Kind, s.Summary)
	for _, part := range []struct {
		title string
		text  stdjson.RawMessage
	}{{"Input", s.Input.JSON()}, {"Output", s.Output.JSON()}} {
		fmt.Fprintf(w, "\n%s:\n", part.title)
		describeFields(w, jsontext.Value(part.text))
	}
	return failed(w.Flush())
}

// field is what is shown of one property of a schema, or of a schema that has none.
type field struct {
	Type        string         `json:"type"`
	Description string         `json:"description"`
	Enum        []any          `json:"enum"`
	Properties  jsontext.Value `json:"properties"`
	Required    []string       `json:"required"`
}

// readField reads a schema as far as it can be shown in a line. What it can't read is
// shown as any value.
func readField(text jsontext.Value) field {
	var f field
	if err := json.Unmarshal(text, &f); err != nil {
		f = field{}
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
	s := readField(text)
	if s.Properties == nil {
		fmt.Fprintf(w, "  %s\t%s\n", s.Type, s.Description)
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
		f := readField(value)
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", title, f.Type, need, f.Description)
	}
	if none {
		fmt.Fprintln(w, "  nothing")
	}
}
