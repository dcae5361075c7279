package line

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/visible"
)

// failed shows the error that a call was answered with, and what to do about it.
func (c *call) failed(e *client.Item, g *client.Guidance, params json.RawMessage) error {
	c.screen.Note("%s", visible.Text(e.Error))
	refused := e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden // a method that the server has
	if g == nil && c.unlisted && !refused {
		// Other servers may leave it to the caller to find out.
		_, err := c.catalog.Method(c.root.Context(), c.module, c.name)
		if u, ok := errors.AsType[*client.Unknown](err); ok {
			g = u.Guidance
		}
	}
	if g != nil {
		shown := *g
		if shown.ErrorKind == client.InvalidParams && e.Code == 422 {
			shown.Reason = "" // the error of data that a syscall refuses has the reason in its text
		}
		if shown.ErrorKind == client.InvalidParams && bytes.Equal(Correct(c.method, params, g.ExampleParams), params) {
			shown.Action = "" // the corrected call would be the same: the schema doesn't explain the error
		}
		c.guide(&shown, params)
	}
	return &exit.Error{Status: failureStatus(e.Code, g)}
}

// maxSuggested is how many bytes a suggested command may have. A longer one, or one of several lines such
// as the code of a syscall, hides what is wrong and can't be copied.
const maxSuggested = 500

// guide shows guidance: the command as it should have been, or what to look at. A command with arguments of its own
// isn't written like the call that guidance is about, and shows the reason only.
func (c *call) guide(g *client.Guidance, params json.RawMessage) {
	if c.command != nil {
		g = &client.Guidance{Reason: g.Reason}
	}
	var lines []string
	say := func(format string, args ...any) {
		lines = append(lines, "  "+visible.Text(fmt.Sprintf(format, args...)))
	}
	if g.Reason != "" {
		say("%s", g.Reason)
	}
	switch g.Action {
	case client.TryMethod:
		if line := c.corrected(g, params); line != "" && len(line) <= maxSuggested && !strings.Contains(line, "\n") {
			say("try:  %s", line)
		}
	case client.CallModuleSchema:
		say("see:  %s", c.program(c.calling(g.Namespace)...))
	case client.CallServiceSchema:
		say("see:  %s", c.program("call"))
	case client.Custom:
		say("%s", g.Message)
	}
	if len(g.AvailableMethods) > 0 && g.ErrorKind != client.InvalidParams {
		say("there are: %s", strings.Join(g.AvailableMethods, ", "))
	}
	if g.ErrorKind == client.InvalidParams && c.method != nil {
		say("help: %s", c.program(append(c.calling(c.module, c.name), "--help")...))
	}
	for _, l := range lines {
		fmt.Fprintln(c.screen.Err, l)
	}
}

// corrected returns the command that guidance suggests, with as much of what was given as the
// method takes.
func (c *call) corrected(g *client.Guidance, params json.RawMessage) string {
	module, method := c.module, g.SuggestedMethod
	if before, after, ok := strings.Cut(method, "."); ok {
		module, method = before, after
	}
	if method == "" {
		return ""
	}
	m := c.method
	if c.catalog != nil && (m == nil || m.Module != module || m.Name != method) {
		m, _ = c.catalog.Method(c.root.Context(), module, method) // the suggested command is right without the schema, too
	}
	return c.program(append(c.calling(module, method), Arguments(m, Correct(m, params, g.ExampleParams))...)...)
}

// ModuleCommand is the annotation of a command that passes on to its module what it doesn't do
// itself.
const ModuleCommand = "module"

// calling returns the words that call a method, or that show a module: where a command has the name of the module or of
// the method, the word call stands before it.
func (c *call) calling(module string, method ...string) []string {
	words := append([]string{module}, method...)
	own, rest, err := c.root.Find(words)
	if err == nil && own != c.root && (own.Annotations[ModuleCommand] == "" || len(method) > len(rest)) {
		words = append([]string{"call"}, words...)
	}
	return words
}

// program returns a command line of kernos, as a shell takes it, for the same server.
func (c *call) program(words ...string) string {
	quoted := []string{"kernos"}
	for _, w := range words {
		quoted = append(quoted, terminal.ShellQuote(w))
	}
	if c.Context != "" {
		quoted = append(quoted, "--context", terminal.ShellQuote(c.Context))
	}
	if c.Server != "" {
		quoted = append(quoted, "--server", terminal.ShellQuote(c.Server))
	}
	return strings.Join(quoted, " ")
}
