package line

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kernos/capability/lifecycle"
	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/nearest"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
)

// Catalog asks a kernel for all its syscalls, and sorts them.
func Catalog(ctx context.Context, call server.Caller) ([]lifecycle.Entry, error) {
	var reply lifecycle.Catalog
	if err := server.Read(ctx, call, message.KindQuery, "Kernel.Modules", struct{}{}, &reply); err != nil {
		return nil, err
	}
	var all []lifecycle.Entry
	for _, m := range reply.Modules {
		all = append(all, m.Syscalls...)
	}
	slices.SortFunc(all, func(a, b lifecycle.Entry) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return all, nil
}

// OfModule returns the syscalls of a module, which is named as in kernos MODULE METHOD, or as in the
// types of its syscalls.
func OfModule(all []lifecycle.Entry, name string) (found []lifecycle.Entry, err error) {
	var modules []string
	for _, e := range all {
		module, _ := kernel.Method(e.Type)
		if module == strings.ToLower(name) {
			found = append(found, e)
		}
		if !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
	}
	if len(found) == 0 {
		hint := cmp.Or(nearest.Hint(strings.ToLower(name), modules), "there are "+strings.Join(modules, ", "))
		return nil, &exit.Error{Status: exit.Unknown, Cause: fmt.Errorf("no module is named %q: %s", name, hint)}
	}
	return found, nil
}

// ListSyscalls writes syscalls as a table.
func ListSyscalls(all []lifecycle.Entry, s *terminal.Screen) error {
	rows := make([][]string, len(all))
	for i, e := range all {
		rows[i] = []string{string(e.Type), string(e.Kind), e.Summary}
	}
	return s.Table(nil, rows)
}

// Describe asks a kernel for the description of a syscall.
func Describe(ctx context.Context, call server.Caller, name string) (json.RawMessage, error) {
	data, err := server.Send(ctx, call, message.KindQuery, "Syscall.Describe", map[string]string{"name": name}, nil)
	if status, ok := errors.AsType[*exit.Error](err); ok && status.Status == exit.Failure {
		err = &exit.Error{Status: exit.Unknown, Cause: status.Cause} // an unknown name is the only possible failure
	}
	return data, err
}

// A Description is what Syscall.Describe replies, as far as it is shown.
type Description struct {
	Name, Summary string
	Kind          message.Kind
	Input, Output json.RawMessage
}

// Show writes the description.
func (d *Description) Show(s *terminal.Screen) error {
	text := fmt.Sprintf("%s (%s)\n%s", visible.Text(d.Name), d.Kind, visible.Text(d.Summary))
	if err := s.Line(text + "\n\nInput:"); err != nil {
		return err
	}
	if err := s.Explained(describeFields(client.ReadField(d.Input))); err != nil {
		return err
	}
	if err := s.Line("\nOutput:"); err != nil {
		return err
	}
	return s.Explained(describeFields(client.ReadField(d.Output)))
}

// describeFields lists the properties of a schema in the order that it has them. Of several forms it
// lists each, except for the reference in place of a reply, which a person never gets.
func describeFields(root *client.Field) (rows [][]string) {
	row := func(f *client.Field, need string) {
		kind := cmp.Or(strings.Join(f.Types, " or "), "any")
		if words := Values(f); words != nil {
			kind += fmt.Sprintf(" %v", words)
		}
		rows = append(rows, []string{"  " + f.Name, kind, need, f.Description})
	}
	for _, f := range root.Fields {
		need := "optional"
		if f.Required {
			need = "required"
		}
		row(f, need)
	}
	if len(rows) > 0 {
		return rows
	}
	for _, form := range root.Forms {
		if form.Member("dataRef") == nil {
			if len(rows) > 0 {
				rows = append(rows, []string{"or", ""})
			}
			rows = append(rows, describeFields(form)...)
		}
	}
	switch {
	case len(rows) > 0:
	case root.Is("object"):
		rows = [][]string{{"  nothing", ""}}
	default:
		rows = [][]string{{"  " + cmp.Or(strings.Join(root.Types, " or "), "any JSON value"), root.Description}}
	}
	return rows
}
