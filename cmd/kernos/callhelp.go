package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kernos/client"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
)

// showModules lists what the server offers.
func (c *calling) showModules() error {
	if c.catalog == nil {
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the server does not say what it offers; call a method by its name")}
	}
	var rows [][]string
	for _, m := range c.catalog.Modules {
		rows = append(rows, []string{visible.Text(m.Namespace), visible.Text(m.Version), visible.Text(m.Description)})
	}
	return c.screen.Table([]string{"MODULE", "VERSION", "DESCRIPTION"}, rows)
}

// showModule lists the methods of a module.
func (c *calling) showModule(ctx context.Context) error {
	if len(c.tokens) > 0 {
		return fmt.Errorf("say which method of %s is to be called; %s lists them", c.module, c.program(c.module))
	}
	m := c.catalog.Module(c.module)
	text := &strings.Builder{}
	fmt.Fprintf(text, "%s\n\nUsage:\n  kernos %s METHOD [--PARAMETER VALUE …]\n\nMethods:\n", m.Description, m.Namespace)
	width := 0
	for _, name := range m.Methods {
		width = max(width, terminal.Columns(name))
	}
	for _, name := range m.Methods {
		description := ""
		if method, err := c.catalog.Method(ctx, m.Namespace, name); err == nil {
			description = method.Description
		}
		fmt.Fprintf(text, "  %s  %s\n", terminal.Pad(name, width), description)
	}
	fmt.Fprintf(text, "\nkernos %s METHOD --help says what a method takes.\n", m.Namespace)
	_, err := c.screen.Out.Write([]byte(visible.Lines(text.String())))
	return exit.Wrap(err)
}

// showMethod says what a method takes.
func (c *calling) showMethod() error {
	if c.method == nil {
		if c.unlisted {
			return c.unknown()
		}
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the server does not say what %s takes; give it --data JSON", c.call())}
	}
	_, err := c.screen.Out.Write([]byte(visible.Lines(methodHelp(c.method, c.screen.Width))))
	return exit.Wrap(err)
}

// unknown is the error of a method that no listing has.
func (c *calling) unknown() error {
	_, err := c.catalog.Method(context.Background(), c.module, c.name)
	if u, ok := err.(*client.Unknown); ok {
		c.screen.Note("%s", visible.Text(u.Error()))
		c.guide(u.Guidance, nil)
	}
	return &exit.Error{Status: exit.Unknown}
}

// methodHelp is the help text of a method: what is required comes first. Descriptions are
// broken to fit a terminal of this width; 0 means that it is none.
func methodHelp(m *client.Method, screenWidth int) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s\n\nUsage:\n  kernos %s %s", m.Description, m.Module, m.Name)
	required, optional := helpRows(&m.Field, "", true)
	for _, f := range m.Fields {
		if f.Required {
			b.WriteString(" " + flagOf(f, f.Name))
		}
	}
	if len(optional) > 0 {
		b.WriteString(" [--PARAMETER VALUE …]")
	}
	b.WriteString("\n")
	width := 0
	for _, row := range slices.Concat(required, optional) {
		width = max(width, terminal.Columns(row[0]))
	}
	for _, part := range []struct {
		title string
		rows  [][2]string
	}{{"Required", required}, {"Optional", optional}} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", part.title)
		for _, row := range part.rows {
			b.WriteString(helpRow(row, width, screenWidth))
		}
	}
	if len(m.Fields) == 0 {
		b.WriteString("\nIt takes no parameters.\n")
	}
	if text := alternatives(m); text != "" {
		fmt.Fprintf(b, "\nOne of these is required: %s.\n", text)
	}
	if example := m.Example(); example != nil {
		words := []string{"kernos", m.Module, m.Name}
		for _, w := range arguments(m, example) {
			words = append(words, shellQuote(w))
		}
		fmt.Fprintf(b, "\nExample:\n  %s\n", strings.Join(words, " "))
	}
	b.WriteString("\nParameters can also be written NAME=VALUE, NAME:=JSON, NAME=@FILE, or all together\nas --data JSON. kernos call --help lists the flags for the output and the server.\n")
	return b.String()
}

// helpRow is a parameter and what is said about it, broken into lines that fit.
func helpRow(row [2]string, left, width int) string {
	indent := left + 4
	if width == 0 || row[1] == "" {
		return strings.TrimRight("  "+terminal.Pad(row[0], left)+"  "+row[1], " ") + "\n"
	}
	b := &strings.Builder{}
	line := "  " + terminal.Pad(row[0], left) + " "
	room := max(width-indent, terminal.NarrowestCell)
	used := 0
	for word := range strings.FieldsSeq(row[1]) {
		n := terminal.Columns(word)
		if used > 0 && used+1+n > room {
			b.WriteString(line + "\n")
			line, used = strings.Repeat(" ", indent-1), 0
		}
		line += " " + word
		used += 1 + n
	}
	return b.String() + line + "\n"
}

// alternatives names the parameters of which a method wants one or the other.
func alternatives(m *client.Method) string {
	var words []string
	for _, form := range m.Forms {
		if len(form.Needs) == 0 {
			return ""
		}
		words = append(words, "--"+strings.Join(form.Needs, " and --"))
	}
	return strings.Join(words, ", or ")
}

// ownFlagsHelp lists the flags that kernos call has itself.
func ownFlagsHelp() string {
	rows, width := make([][2]string, len(ownFlags)), 0
	for i, f := range ownFlags {
		name := "    --" + f.name
		if f.short != "" {
			name = "-" + f.short + ", --" + f.name
		}
		if f.value != "" {
			name += " " + f.value
		}
		rows[i] = [2]string{name, f.help}
		width = max(width, terminal.Columns(name))
	}
	b := &strings.Builder{}
	for _, row := range rows {
		fmt.Fprintf(b, "  %s  %s\n", terminal.Pad(row[0], width), row[1])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// helpRows describes the parameters, and the fields within them. Those that are needed
// only if the parameter around them is given are not required.
func helpRows(f *client.Field, prefix string, needed bool) (required, optional [][2]string) {
	for _, inner := range f.Fields {
		name := prefix + inner.Name
		row := [2]string{flagOf(inner, name), fieldHelp(inner)}
		if inner.Required && needed {
			required = append(required, row)
		} else {
			optional = append(optional, row)
		}
		r, o := helpRows(inner, name+".", needed && inner.Required)
		required, optional = append(required, r...), append(optional, o...)
	}
	return required, optional
}

// renamedMethod is the name that the schema of a module gives to a parameter called method,
// for that is where it has the name of the method itself.
const renamedMethod = "method_"

// flagName is the name that people know a parameter by. It is read as either.
func flagName(name string) string {
	if name == renamedMethod {
		return "method"
	}
	return name
}

// flagOf is how a parameter is written, with what stands for its value.
func flagOf(f *client.Field, name string) string {
	word := valueWord(f)
	name = flagName(name)
	switch {
	case findsOwn("--" + name): // kernos call has a flag of this name
		return name + "=" + cmp.Or(word, "BOOLEAN")
	case word == "":
		return "--" + name
	}
	return "--" + name + " " + word
}

// valueWord is what stands for a value in a usage line.
func valueWord(f *client.Field) string {
	switch t := f.Scalar(); {
	case t == "boolean":
		return ""
	case t == "array":
		if word := valueWord(elementOf(f)); word != "" {
			return word + " …"
		}
		return "BOOLEAN …"
	case t == "object":
		return "JSON"
	case f.Format != "":
		return strings.ToUpper(f.Format)
	case t == "":
		return "VALUE"
	default:
		return strings.ToUpper(t)
	}
}

// fieldHelp is what is said about a parameter behind its flag.
func fieldHelp(f *client.Field) string {
	var parts []string
	if f.Description != "" {
		parts = append(parts, f.Description)
	}
	enum := f.Enum
	if f.Scalar() == "array" {
		enum = append(slices.Clone(enum), elementOf(f).Enum...)
	}
	if len(enum) > 0 {
		words := make([]string, len(enum))
		for i, v := range enum {
			words[i] = jsonvalue.Plain(v)
		}
		parts = append(parts, "One of "+strings.Join(words, ", ")+".")
	}
	if text := limits(f); text != "" {
		parts = append(parts, text)
	}
	if f.Default != nil {
		parts = append(parts, "Default: "+jsonvalue.Plain(f.Default)+".")
	}
	if f.Sensitive {
		parts = append(parts, "It is treated as a secret: NAME=@FILE keeps it out of the process list.")
	}
	return strings.Join(parts, " ")
}

// limits says between which numbers a value must be. That it must be exact in a float64 is
// nothing that people care about.
func limits(f *client.Field) string {
	const exact = 1<<53 - 1
	low, high := f.Minimum != nil && *f.Minimum > -exact, f.Maximum != nil && *f.Maximum < exact
	switch {
	case low && high:
		return fmt.Sprintf("From %s to %s.", digits(*f.Minimum), digits(*f.Maximum))
	case low:
		return fmt.Sprintf("At least %s.", digits(*f.Minimum))
	case high:
		return fmt.Sprintf("At most %s.", digits(*f.Maximum))
	}
	return ""
}

func digits(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
