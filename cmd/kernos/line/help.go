package line

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/when"
)

// MethodHelp returns the help text of a method, which these words call: kernos memory get. What is
// required comes first. Descriptions are broken to fit a terminal of this width; 0 means that the
// output isn't a terminal.
func MethodHelp(m *client.Method, command []string, screenWidth int) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s\n\nUsage:\n  %s", m.Description, strings.Join(command, " "))
	required, optional := helpRows(&m.Field, "", true)
	positional := Positional(m)
	for _, f := range positional {
		word := strings.ToUpper(FlagName(f.Name))
		if f.Scalar() == "array" {
			word += "…"
		}
		if !f.Required {
			word = "[" + word + "]"
		}
		b.WriteString(" " + word)
	}
	for _, f := range m.Fields {
		if f.Required && !slices.Contains(positional, f) {
			b.WriteString(" " + flagOf(f, f.Name))
		}
	}
	if len(optional) > 0 || takesAnything(m) {
		b.WriteString(" [--PARAMETER VALUE …]")
	}
	b.WriteString("\n")
	width := 0
	for _, row := range slices.Concat(required, optional) {
		width = max(width, terminal.Columns(row[0]))
	}
	for _, row := range slices.Concat(required, optional) {
		row[0] = terminal.Pad(row[0], width)
	}
	screen := &terminal.Screen{Out: b, Width: screenWidth}
	for _, part := range []struct {
		title string
		rows  [][]string
	}{{"Required", required}, {"Optional", optional}} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", part.title)
		_ = screen.Explained(part.rows)
	}
	switch {
	case takesAnything(m):
		b.WriteString("\nIt takes parameters of any names.\n")
	case len(m.Fields) == 0:
		b.WriteString("\nIt takes no parameters.\n")
	}
	if text := alternatives(m); text != "" {
		fmt.Fprintf(b, "\nOne of these is required: %s.\n", text)
	}
	if example := m.Example(); example != nil {
		words := slices.Clone(command)
		for _, w := range Arguments(m, example) {
			words = append(words, terminal.ShellQuote(w))
		}
		fmt.Fprintf(b, "\nExample:\n  %s\n", strings.Join(words, " "))
	}
	for i, f := range positional {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s is the same as %s, for a value that doesn't begin with a hyphen.\n", strings.ToUpper(FlagName(f.Name)), flagOf(f, f.Name))
	}
	if f := m.Member(m.Stdin); f != nil {
		fmt.Fprintf(b, "Without %s, what is piped into the command is its value.\n", flagOf(f, f.Name))
	}
	b.WriteString("\n--PARAMETER VALUE and PARAMETER=VALUE take a value as it is; PARAMETER=@FILE takes it from a file.\nWhere a parameter takes any value, these are for texts, and PARAMETER:=JSON is for everything else.\nAll of them together are --data JSON. kernos call --help has the flags for the output and the server.\n")
	return b.String()
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

// helpRows describes the parameters, and the fields within them. Those that are needed
// only if the parameter around them is given are not required.
func helpRows(f *client.Field, prefix string, needed bool) (required, optional [][]string) {
	for _, inner := range f.Fields {
		name := prefix + inner.Name
		row := []string{"  " + flagOf(inner, name), FieldHelp(inner)}
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

// flagOf returns how a parameter is written, with what stands for its value.
func flagOf(f *client.Field, name string) string {
	word := valueWord(f)
	name = FlagName(name)
	switch {
	case IsReserved(name): // kernos call has a flag of this name
		return name + "=" + cmp.Or(word, "BOOLEAN")
	case word == "":
		return "--" + name
	}
	return "--" + name + " " + word
}

// FieldHelp returns the description of a parameter after its flag.
func FieldHelp(f *client.Field) string {
	var parts []string
	if f.Description != "" {
		parts = append(parts, f.Description)
	}
	if words := Values(f); words != nil {
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

// limits reports between which numbers a value must be, or how a time is written. That a number must be exact in a
// float64 is nothing that people care about.
func limits(f *client.Field) string {
	switch {
	case f.Format == when.FormatTime && f.Is("string"):
		return "" // its description has examples
	case f.Format == when.FormatTime:
		return "Such as " + strings.Join(when.AheadExamples[:], ", ") + "."
	}
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
