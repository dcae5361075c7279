package line

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/visible"
)

// showModules lists what the server offers.
func (c *call) showModules() error {
	if c.catalog == nil {
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the server doesn't describe what it offers; call a method by its name")}
	}
	c.noteLacks()
	var rows [][]string
	for _, m := range c.catalog.Modules {
		rows = append(rows, []string{m.Namespace, m.Version, m.Description})
	}
	return c.screen.Table([]string{"MODULE", "VERSION", "DESCRIPTION"}, rows)
}

// noteLacks notes what isn't listed because no daemon answers.
func (c *call) noteLacks() {
	if c.kernel == nil {
		return
	}
	if lacks := c.kernel.Lacks(); lacks != "" {
		c.screen.Note("%s", lacks)
	}
}

// showModule lists the methods of a module.
func (c *call) showModule(ctx context.Context) error {
	if c.HasParameters {
		return fmt.Errorf("name the method of %s to call; %s lists them", c.module, c.program(c.calling(c.module)...))
	}
	m := c.catalog.Module(c.module)
	text, module := &strings.Builder{}, strings.Join(c.calling(m.Namespace), " ")
	fmt.Fprintf(text, "%s\n\nUsage:\n  kernos %s METHOD [--PARAMETER VALUE …]\n\nMethods:\n", m.Description, module)
	var rows [][]string
	for _, name := range m.Methods {
		description := ""
		if method, err := c.catalog.Method(ctx, m.Namespace, name); err == nil {
			description = method.Description
		}
		rows = append(rows, []string{"  " + name, description})
	}
	_ = (&terminal.Screen{Out: text, Width: c.screen.Width}).Explained(rows)
	fmt.Fprintf(text, "\nkernos %s METHOD --help shows what a method takes.\n", module)
	_, err := c.screen.Out.Write([]byte(visible.Lines(text.String())))
	return exit.Wrap(err)
}

// showMethod prints what a method takes.
func (c *call) showMethod() error {
	if c.method == nil {
		if c.unlisted {
			return c.unknown()
		}
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the server doesn't describe the parameters of %s; give it --data JSON", c.fullName())}
	}
	_, err := c.screen.Out.Write([]byte(visible.Lines(MethodHelp(c.method, append([]string{"kernos"}, c.calling(c.method.Module, c.method.Name)...), c.screen.Width))))
	return exit.Wrap(err)
}

// unknown returns the error of a method that no listing has.
func (c *call) unknown() error {
	_, err := c.catalog.Method(context.Background(), c.module, c.name)
	if u, ok := err.(*client.Unknown); ok {
		if c.wrong == nil {
			c.noteLacks()
		} else if u.Guidance.Action == client.CallServiceSchema {
			return c.noCommand(c.Words[0]) // no module has a name like it
		}
		c.screen.Note("%s", visible.Text(u.Error()))
		c.guide(u.Guidance, c.given(u.Guidance.SuggestedMethod))
	}
	return &exit.Error{Status: exit.Unknown}
}

// given returns the parameters of the command line as the method that is suggested takes them. The
// content of files isn't among them: it isn't for a screen.
func (c *call) given(suggested string) json.RawMessage {
	module, name, ok := strings.Cut(suggested, ".")
	if !ok {
		module, name = c.module, suggested
	}
	m, err := c.catalog.Method(context.Background(), module, name)
	if err != nil || slices.ContainsFunc(c.Args, func(arg string) bool { return strings.Contains(arg, "=@") }) {
		return nil
	}
	params, _ := (&Line{Args: c.Args, Words: c.Words}).Parameters(m, Input{}) // parameters that can't be read are left out
	return params
}
