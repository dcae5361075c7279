package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kernos/client"
	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/jsonvalue"
	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// syscallPages returns a page for each module, and their index.
func syscallPages(t *testing.T) map[string]string {
	t.Helper()
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]string)
	var rows [][]string
	for _, n := range r.All().Namespaces() {
		p := newSheet("Syscalls of " + n.Name)
		p.paragraph("%s", n.Summary)
		var listed [][]string
		for _, method := range n.Methods {
			name, summary := string(method.Type), method.Syscall.Summary
			listed = append(listed, []string{"[" + name + "](#" + slug(name) + ")", string(method.Syscall.Kind), summary})
			rows = append(rows, []string{"[" + name + "](syscalls/" + n.Name + ".md#" + slug(name) + ")", string(method.Syscall.Kind), summary})
		}
		p.table([]string{"syscall", "kind", ""}, listed)
		for _, method := range n.Methods {
			p.syscall(t, method)
		}
		pages["syscalls/"+n.Name+".md"] = p.String()
	}
	p := newSheet("Syscalls")
	p.paragraph(`The %d syscalls of this version. Each has an example for a shell, for HTTP, and for the libraries in
[sdk/](../../sdk), which have a client first:

`+"```python"+`
import kernos
client = kernos.Client()
`+"```"+`

`+"```ts"+`
import { connect } from "./kernos.js"
const client = await connect()
`+"```"+`

The examples show what a call needs, and no more. `+"`kernos describe TYPE`"+` shows the schemas of a syscall, `+"`kernos MODULE METHOD --help`"+` its
flags. Every call may also give the errors 400, 401, 403, 422, 429, 499, 500, 503 and 504, which [errors.md](errors.md) explains. Programs, code
and mounted servers add syscalls of their own, which `+"`kernos ls`"+` lists.`, len(rows))
	p.table([]string{"syscall", "kind", ""}, rows)
	pages["syscalls.md"] = p.String()
	return pages
}

// syscall adds the description of a syscall.
func (p *sheet) syscall(t *testing.T, r *kernel.Route) {
	t.Helper()
	s := r.Syscall
	p.paragraph("## %s", r.Type)
	p.paragraph("%s", s.Summary)
	p.paragraph("%s", facts(t, r))
	input := client.ReadField(s.Input.JSON())
	switch rows := fields(input, "", 0); {
	case len(rows) > 0:
		p.table([]string{"input", "type", ""}, rows)
	case input.Closed || len(input.Types) > 0:
		p.paragraph("It takes no parameters.")
	default:
		p.paragraph("It takes any value.")
	}
	output := client.ReadField(s.Output.JSON())
	if rows := fields(output, "", 0); len(rows) > 0 {
		p.table([]string{"output", "type", ""}, rows)
	} else {
		p.paragraph("%s", strings.TrimSpace("The reply is "+kind(output)+". "+sentence(line.FieldHelp(output))))
	}
	var rows [][]string
	for _, e := range s.Emits {
		rows = append(rows, []string{string(e.Type), e.Summary})
	}
	p.table([]string{"event", ""}, rows)
	rows = nil
	for _, e := range s.Errors {
		rows = append(rows, []string{fmt.Sprint(e.Code), sentence(e.When)})
	}
	p.table([]string{"error", ""}, rows)
	example, ok := schema.ExampleOf(s.Input)
	if !ok {
		t.Errorf("%s has no example", r.Type)
		return
	}
	p.examples(r, example)
}

// facts returns what a caller should know before a call.
func facts(t *testing.T, r *kernel.Route) string {
	t.Helper()
	s := r.Syscall
	all := []string{string(s.Kind), "`" + r.Name() + "` in RPC", forWhom(t, s)}
	switch s.Runs {
	case kernel.Slow:
		all = append(all, "runs beside others of its connection")
	case kernel.Endless:
		all = append(all, "runs until it is cancelled")
	}
	if s.Timeout > 0 {
		all = append(all, "may take "+s.Timeout.String())
	}
	for _, reach := range s.Reaches {
		all = append(all, "reaches "+string(reach))
	}
	switch {
	case s.Kind == message.KindCommand && s.Repeat.Has(kernel.Idempotent):
		all = append(all, "a second run changes nothing more")
	case s.Effect == kernel.External && s.Kind == message.KindCommand && !s.Repeat.Has(kernel.Retried):
		all = append(all, "isn't run again if its outcome is unknown")
	}
	if s.Destroys {
		all = append(all, "takes away what no other syscall brings back")
	}
	if !s.Short && !s.Output.Sensitive() {
		all = append(all, "a long reply is a [reference](../wire.md#large-data)")
	}
	if s.Replaced != "" {
		all = append(all, "deprecated: use "+string(s.Replaced))
	}
	for _, alias := range s.Aliases {
		all = append(all, "earlier "+string(alias))
	}
	return strings.Join(all, " · ")
}

// forWhom names the presets of the tokens that may call a syscall.
func forWhom(t *testing.T, s *kernel.Syscall) string {
	t.Helper()
	var presets []string
	for _, preset := range append(slices.Clone(principal.Presets), principal.Bare) {
		grant := principal.Grant{Preset: preset}
		if preset == principal.Bare {
			grant.Allow = []string{"Nothing.AtAll"}
		}
		p, err := principal.New("reference", "reference", grant)
		if err != nil {
			t.Fatal(err)
		}
		if p.Allows(s.Target()) {
			presets = append(presets, string(preset))
		}
	}
	switch {
	case len(presets) == len(principal.Presets)+1:
		return "for every token"
	case len(presets) > 0:
		return "for the owner, and tokens with the preset " + strings.Join(presets, ", ")
	case s.Access == principal.OwnerOnly:
		return "for the owner only"
	}
	return "for the owner, and tokens that are allowed it by name"
}

// deepest is how deep the members of members are listed.
const deepest = 4

// fields returns rows for the members of a value.
func fields(f *client.Field, prefix string, depth int) (rows [][]string) {
	for _, member := range f.Fields {
		name := prefix + member.Name
		shown := "`" + name + "`"
		if member.Required && depth == 0 {
			shown = "**`" + name + "`**"
		}
		rows = append(rows, []string{shown, kind(member), line.FieldHelp(member)})
		if depth < deepest {
			rows = append(rows, fields(member, name+".", depth+1)...)
			for items, at := member.Items, name+"[]"; items != nil; items, at = items.Items, at+"[]" {
				rows = append(rows, fields(items, at+".", depth+1)...)
			}
		}
	}
	return rows
}

// kind returns the type of a value in words.
func kind(f *client.Field) string {
	var words []string
	for _, name := range f.Types {
		if name == "array" && f.Items != nil && len(f.Items.Types) > 0 {
			name = "list of " + f.Items.Types[0]
		} else if name == "array" {
			name = "list"
		}
		words = append(words, name)
	}
	if len(words) == 0 {
		return "any"
	}
	return strings.Join(words, " or ")
}

// examples adds the same call in four languages.
func (p *sheet) examples(r *kernel.Route, example json.RawMessage) {
	s := r.Syscall
	method := &client.Method{
		Module: r.Namespace, Name: r.Method, Field: *client.ReadField(s.Input.JSON()), Schema: s.Input.JSON(),
		Presentation: client.Presentation{Arguments: s.Arguments, Stdin: s.Stdin},
	}
	words := []string{"kernos", r.Namespace, strings.ReplaceAll(r.Method, "_", "-")}
	for _, w := range line.Arguments(method, example) {
		words = append(words, terminal.ShellQuote(w))
	}
	p.paragraph("```sh\n%s\n\ncurl http://127.0.0.1:7420/v1/call/%s/%s -H \"Authorization: Bearer $(kernos token)\" -d %s\n```",
		strings.Join(words, " "), r.Namespace, r.Method, terminal.ShellQuote(string(example)))
	python, script := ", "+pythonValue(example), ", "+scriptValue(example)
	if string(example) == "{}" {
		python, script = "", ""
	}
	p.paragraph("```python\nclient.%s(%q%s)\n```", s.Kind, string(r.Type), python)
	p.paragraph("```ts\nawait client.%s(%q%s)\n```", s.Kind, string(r.Type), script)
}

// pythonValue returns JSON as Python has it.
func pythonValue(value json.RawMessage) string {
	if members := jsonvalue.Members(value); members != nil {
		parts := make([]string, len(members))
		for i, m := range members {
			parts[i] = quoted(m.Name) + ": " + pythonValue(m.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	if jsonvalue.Kind(string(value)) == "array" {
		var parts []string
		for _, e := range jsonvalue.Elements(value) {
			parts = append(parts, pythonValue(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if word, ok := map[string]string{"true": "True", "false": "False", "null": "None"}[string(value)]; ok {
		return word
	}
	return string(value)
}

var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// scriptValue returns JSON as people write it in TypeScript.
func scriptValue(value json.RawMessage) string {
	if members := jsonvalue.Members(value); members != nil {
		parts := make([]string, len(members))
		for i, m := range members {
			name := m.Name
			if !identifier.MatchString(name) {
				name = quoted(name)
			}
			parts[i] = name + ": " + scriptValue(m.Value)
		}
		if len(parts) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	if jsonvalue.Kind(string(value)) == "array" {
		var parts []string
		for _, e := range jsonvalue.Elements(value) {
			parts = append(parts, scriptValue(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return string(value)
}

// quoted returns a text as JSON, which Python and TypeScript read, too.
func quoted(text string) string { return string(jsonvalue.Marshal(text)) }

// TestExamplesOfTheReferenceAreCode lets Python and Node.js parse the examples.
func TestExamplesOfTheReferenceAreCode(t *testing.T) {
	tool.Need(t, "python3", "node")
	files, err := filepath.Glob("reference/syscalls/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for language, check := range map[string][]string{
		"python": {"python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())"},
		"ts":     {"node", "--input-type=module", "--check"},
	} {
		block, n := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```\n"), 0
		var code bytes.Buffer
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range block.FindAllSubmatch(text, -1) {
				code.Write(b[1])
				n++
			}
		}
		if n < 100 {
			t.Errorf("%d examples in %s", n, language)
		}
		c := exec.Command(check[0], check[1:]...)
		c.Stdin = &code
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", language, err, out)
		}
	}
}

// TestExamplesOfTheReferenceRun types the examples of two syscalls, in each of the four languages.
func TestExamplesOfTheReferenceRun(t *testing.T) {
	tool.Need(t, "bash", "curl", "python3", "node")
	r := &reader{t: t, kernos: filepath.Dir(testkit.Program(t, "kernos/cmd/kernos"))}
	r.begin()
	for _, c := range []struct{ file, name, prints string }{{"memory.md", "Memory.Set", "success"}, {"kernel.md", "Echo", "hello"}} {
		text, err := os.ReadFile("reference/syscalls/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(text), "\n## "+c.name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		code := func(language string) string {
			_, block, _ := strings.Cut(section, "```"+language+"\n")
			block, _, _ = strings.Cut(block, "```")
			return strings.TrimSpace(block)
		}
		shell, curl, _ := strings.Cut(code("sh"), "\n\n")
		for language, script := range map[string]string{
			"shell": shell, "curl": "kernos memory list > /dev/null\n" + r.local(curl),
			"python": "PYTHONPATH=sdk/python python3 - <<'END'\nimport kernos\nclient = kernos.Client()\nprint(" + code("python") + ")\nEND",
			"ts":     "node --input-type=module - <<'END'\nimport { connect } from './sdk/typescript/kernos.js'\nconst client = await connect()\nconsole.log(" + code("ts") + ")\nclient.close()\nEND",
		} {
			bash := r.command("bash", "--norc", "-s")
			bash.Stdin = strings.NewReader(script)
			if out, err := bash.Output(); err != nil || !strings.Contains(string(out), c.prints) {
				t.Errorf("%s in %s: %v\n%s\n%s", c.name, language, err, script, out)
			}
		}
	}
}
