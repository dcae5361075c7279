// Package line makes a call from a command line, from its words to its exit status: kernos MODULE METHOD, the parameters
// of the method, and the flags of every call. It discovers the method, checks the parameters, asks for missing ones,
// prints the data, and guides the user after an error. It completes such command lines too.
//
//	line, err := line.Read(args)                 // before the server is known
//	…                                            // the server describes the method
//	params, err := line.Parameters(method, input)
//
// The flags of a method are a pflag.FlagSet that is made at run time; the types of their values come from the JSON Schema
// of the method.
//
//	flags.go, parameters.go, fields.go, tree.go   words into parameters; arguments.go is the way back
//	call.go, send.go, job.go, watch.go            a call, and what comes back
//	complete.go, known.go, values.go              completion
//	help.go, show.go, guide.go, correct.go        what a person is told
//
// # Goroutines
//
//   - The timer of a server that hasn't answered for long, for a moment, one per kernos mcp add.
package line

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/internal/nearest"
	"kernos/internal/secret"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
)

// A call is one call, from its command line to its exit status.
type call struct {
	*Line
	root     *cobra.Command
	server   *server.Server
	screen   *terminal.Screen
	in       io.Reader
	kernel   *server.Kernel // nil if the server can't be reached, and the cache knows what it offers
	cache    *client.Cache
	catalog  *client.Catalog // nil if the server has given none
	module   string
	name     string         // name of the method
	method   *client.Method // nil if its schema can't be had
	wrong    []string       // the names that are remembered, if the words are none of them
	unlisted bool           // the catalog does not list it
	again    bool           // the call was made before, and --watch repeats it

	bar     *terminal.Bar               // the progress of what is called
	command *Command                    // the command whose call this is; nil if the command line names the method
	show    func(json.RawMessage) error // writes the data of its reply for people; nil if it has no form of its own
}

func newCall(c *cobra.Command, line *Line) *call {
	screen := terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr())
	return &call{
		Line: line, root: c.Root(), screen: screen, in: c.InOrStdin(), cache: client.OpenCache(""),
		bar: terminal.NewBar(screen.Err),
	}
}

// Call makes a call. Its command is a command of the root whose names are suggested after a typo.
func Call(c *cobra.Command, args []string) error {
	line, err := Read(args)
	if err != nil {
		return fmt.Errorf("%w; see kernos call --help", err)
	}
	if line.Help && len(line.Words) == 0 {
		command, _, err := c.Root().Find([]string{"call"})
		if err != nil {
			return err
		}
		return command.Help()
	}
	one := newCall(c, line)
	defer one.close()
	return exit.OnSignal(c.Context(), one.run)
}

func (c *call) close() {
	if c.kernel != nil {
		_ = c.kernel.Close()
		c.kernel = nil
	}
}

func (c *call) run(ctx context.Context) error {
	if err := c.locate(ctx); err != nil {
		return err
	}
	if c.method != nil { // words that looked like flags may be values
		context, server, help := c.Context, c.Server, c.Help
		if err := c.Settle(c.method); err != nil && !help {
			return err
		} else if err != nil {
			c.Help = true
		}
		if c.Context != context || c.Server != server {
			c.close()
			c.server = nil
			if err := c.locate(ctx); err != nil {
				return err
			}
		}
	}
	switch {
	case c.wrong != nil && c.kernel != nil && c.kernel.DefinitionsOnly() && !c.Help && !c.shows():
		return c.unknown()
	case len(c.Words) == 0:
		return c.showModules()
	case c.name == "":
		return c.showModule(ctx)
	case c.Help:
		return c.showMethod()
	}
	params, err := c.Parameters(c.method, Input{Stdin: c.in, Keep: c.server.Keep, Inline: c.server.MaxInline()})
	if err != nil && c.unlisted && c.catalog != nil && c.method == nil {
		return c.unknown() // the parameters of an unknown method aren't known
	}
	if _, invalid := errors.AsType[*Invalid](err); invalid {
		return c.invalid(params, err)
	}
	if err != nil {
		return err
	}
	if params, err = c.complete(ctx, params); err != nil {
		return err
	}
	return c.repeated(ctx, func() error { return c.dispatch(ctx, params) })
}

// diverted reports whether the request is shown, or becomes a job, and isn't sent itself.
func (c *call) diverted() bool { return c.shows() || c.Background }

// shows reports whether the request is only shown.
func (c *call) shows() bool { return c.DryRun || c.Given("as") }

// dispatch checks the parameters, and then sends the call, or shows it, or starts a job that makes it.
func (c *call) dispatch(ctx context.Context, params json.RawMessage) (err error) {
	if c.method != nil {
		if params, err = c.read(params); err != nil {
			return c.invalid(params, err)
		}
	}
	if len(params) > server.MaxCall {
		return &exit.Error{Status: exit.Invalid, Cause: tooLarge(c.method, len(params))}
	}
	if route, ok := builtIn(c.fullName()); ok && c.shows() {
		params, _ = route.Syscall.Input.Redact(params) // a secret is not for a screen
	} else if c.shows() && c.method != nil && hasSecret(&c.method.Field) {
		params = withoutSecrets(&c.method.Field, params, json.RawMessage(secret.RedactedJSON))
	}
	if c.Background {
		if params, err = c.background(ctx, params); err != nil {
			return err
		}
	}
	if c.shows() {
		return c.showRequest(params)
	}
	if err := c.mayRepeat(); err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	return c.send(ctx, params)
}

// read checks the parameters. Those of a syscall of the kernel that came under another name get their own, as the kernel reads
// them; the schemas that servers list have one name for each.
func (c *call) read(params json.RawMessage) (json.RawMessage, error) {
	err := c.method.Validate(params)
	route, ok := builtIn(c.fullName())
	if err == nil || !ok {
		return params, err
	}
	meant, note, invalid := route.Syscall.Reading(params)
	if invalid != nil || c.method.Validate(meant) != nil {
		return params, err
	}
	c.screen.Remark(note)
	return meant, nil
}

// open connects to a kernel that takes calls.
func (c *call) open(ctx context.Context) (err error) {
	if c.kernel != nil && !c.kernel.DefinitionsOnly() {
		return nil
	}
	c.close() // what was open lists and describes only
	if err = c.choose(); err == nil {
		c.kernel, err = c.server.Open(ctx, c.sending())
	}
	return err
}

// choose finds the server that the flags name.
func (c *call) choose() (err error) {
	if c.server == nil {
		c.server, err = server.FindServer(c.Context, c.Server)
	}
	if err == nil {
		c.server.TimeLimit = c.TimeLimit
	}
	return err
}

// tooLarge returns the error for parameters that no server takes. Nothing was sent.
func tooLarge(m *client.Method, size int) error {
	advice := "send less at a time"
	if m != nil {
		for _, f := range m.Fields {
			if name, ok := strings.CutSuffix(f.Name, "Ref"); ok && m.Member(name) != nil {
				advice = fmt.Sprintf("give %s as a file, %s=@FILE, to the daemon of this machine", name, name)
				break
			}
		}
	}
	return fmt.Errorf("the parameters have %d bytes, and a call may have %d: %s", size, server.MaxCall, advice)
}

// locate connects to the server that the flags name, and finds the method there.
func (c *call) locate(ctx context.Context) (err error) {
	if err := c.choose(); err != nil {
		return err
	}
	if c.kernel == nil {
		if err := c.connect(ctx); err != nil {
			return err
		}
	}
	if err := c.discover(ctx); err != nil || len(c.Words) == 0 {
		return err
	}
	c.module, c.name, c.method, c.unlisted = "", "", nil, false
	return c.find(ctx)
}

// connect connects to the server. The daemon of this user is started if it is not running.
// A command line that sends nothing does with definitions, or with what the cache has.
func (c *call) connect(ctx context.Context) error {
	c.wrong = c.findWrong()
	readOnly, how := c.readsOnly() || c.wrong != nil, c.sending()
	if readOnly {
		how = server.Options{ReadOnly: true}
	}
	kernel, err := c.server.Open(ctx, how)
	if err == nil {
		c.kernel = kernel
		return nil
	}
	if _, cacheErr := c.cache.Latest(c.server.Target); cacheErr == nil && readOnly {
		c.screen.Note("%v; what is shown is what the server had when it was last called", err)
		return nil
	}
	return err
}

// findWrong returns the names that the daemon of this user had when it ended, if the words name nothing that it had: no daemon
// is started for them. A method of a server that is mounted may be new.
func (c *call) findWrong() []string {
	if c.command != nil || len(c.Words) == 0 || c.server.Daemon == nil {
		return nil
	}
	names, known := c.server.Daemon.Names()
	if !known {
		return nil
	}
	module, method := splitName(c.Words)
	if _, ok := builtIn(module + "_" + method); ok {
		return nil
	}
	word := client.Fold(c.Words[0])
	for _, name := range names {
		module, method := kernel.Method(message.Type(name))
		switch {
		case word == client.Fold(module+method),
			word == client.Fold(module) && (len(c.Words) == 1 || client.Fold(c.Words[1]) == client.Fold(method)),
			method == daemon.AnyMethod && strings.HasPrefix(word, client.Fold(module)):
			return nil
		}
	}
	return names
}

// sending returns how the kernel is opened for a call that is sent.
func (c *call) sending() server.Options {
	if c.command == nil || c.Background { // a job needs a kernel that stays
		return server.Options{Start: true}
	}
	how := c.command.Open
	how.Progress = func(item *client.Item) { c.bar.Show(item.Message, item.Percentage) }
	return how
}

// readsOnly reports whether the command line asks for help or for a list, and sends nothing. A lone word that
// isn't a type is a module, whose methods are listed, or a slip, for which no daemon is started.
func (c *call) readsOnly() bool {
	if len(c.Words) == 1 && !c.HasParameters && !strings.ContainsAny(c.Words[0], "._") {
		return !message.Type(c.Words[0]).Valid()
	}
	return c.Help || c.DryRun || c.Given("as") || len(c.Words) == 0
}

// discover learns what the server offers. If it can't, parameters are sent as they are.
func (c *call) discover(ctx context.Context) (err error) {
	if c.kernel == nil {
		c.catalog, err = c.cache.Latest(c.server.Target)
		return err
	}
	c.catalog, err = c.kernel.Discover(ctx, c.cache)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		c.catalog = nil
		c.screen.Note("what the server offers can't be found out (%v); parameters are sent as they are", err)
	case c.catalog.Stale != nil:
		c.screen.Note("what the server offers can't be found out (%v); this goes by what it had when it was last called", c.catalog.Stale)
	}
	return nil
}

// find finds out which method is meant.
func (c *call) find(ctx context.Context) error {
	words := c.Words
	if c.catalog == nil {
		c.module, c.name = splitName(words)
		if len(words) == 1 && c.name == "" {
			return fmt.Errorf("name a method of %s: kernos %s METHOD", words[0], words[0])
		}
		return nil
	}
	var one *client.Module
	for i := range c.catalog.Modules {
		if client.Fold(c.catalog.Modules[i].Namespace) == client.Fold(words[0]) {
			one = &c.catalog.Modules[i]
		}
	}
	switch {
	case one != nil && len(words) == 1:
		c.module = one.Namespace
		return nil
	case one != nil:
		c.module, c.name = one.Namespace, words[1]
		if i := slices.IndexFunc(one.Methods, func(m string) bool { return client.Fold(m) == client.Fold(words[1]) }); i >= 0 {
			c.name = one.Methods[i]
		}
	default:
		var named bool // one word names the method
		if c.module, c.name, named = c.catalog.Find(words[0]); !named {
			c.module, c.name, named = kernelMethod(words[0])
		}
		if named {
			c.Words = words[:1]
		} else if c.module, c.name = splitName(words); c.name == "" || explanation(words[0]) != "" || len(c.meant(words[0])) > 0 {
			return c.noCommand(words[0])
		}
	}
	m, err := c.catalog.Method(ctx, c.module, c.name)
	if _, unknown := errors.AsType[*client.Unknown](err); unknown {
		c.unlisted = true // the server may have it all the same
		if _, ok := builtIn(c.fullName()); ok && hasKernel(c.catalog) {
			c.method, err = server.Defined(ctx, c.module, c.name)
			return err
		}
		return nil
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.screen.Note("%v; parameters are sent as they are", err)
	}
	c.method = m
	return nil
}

// definitions are those of the kernel's own syscalls.
var definitions = sync.OnceValues(daemon.Definitions)

// builtIn finds a method of the kernel itself.
func builtIn(method string) (*kernel.Route, bool) {
	r, err := definitions()
	if err != nil {
		return nil, false
	}
	return r.LookupMethod(method)
}

// kernelMethod splits the name of a type that has one segment: Echo or Ping.
func kernelMethod(word string) (module, name string, ok bool) {
	if t := message.Type(word); t.Valid() && !strings.Contains(word, ".") {
		module, name = kernel.Method(t)
		return module, name, true
	}
	return "", "", false
}

// splitName makes a module and a method of a name that no listing has.
func splitName(words []string) (module, name string) {
	if len(words) == 2 && !strings.Contains(words[0], ".") {
		return strings.ToLower(words[0]), words[1]
	}
	if t := message.Type(words[0]); t.Valid() {
		return kernel.Method(t)
	}
	module, name, ok := strings.Cut(words[0], "_")
	if !ok {
		module, name, _ = strings.Cut(words[0], ".")
	}
	return module, name
}

// shortWord is how long a word may be for its first letter to be taken for right.
const shortWord = 4

// noCommand returns the error of a lone word that is neither a command nor a module.
func (c *call) noCommand(word string) error {
	if means := explanation(word); means != "" {
		return &exit.Error{Status: exit.Unknown, Cause: fmt.Errorf("unknown command %q: %s", word, means)}
	}
	var names []string
	for _, known := range c.root.Commands() {
		if known.IsAvailableCommand() {
			names = append(names, known.Name())
		}
	}
	if c.catalog != nil {
		for _, m := range c.catalog.Modules {
			names = append(names, m.Namespace)
		}
	}
	for _, name := range c.wrong {
		module, _ := kernel.Method(message.Type(name))
		names = append(names, module)
	}
	if len(word) <= shortWord { // many short names are near to each other
		first := strings.ToLower(word[:min(1, len(word))])
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(strings.ToLower(name), first) })
	}
	slices.Sort(names)
	if names = slices.Compact(names); c.wrong == nil {
		c.noteLacks()
	}
	hint := nearest.Hint(word, names)
	if meant := c.meant(word); len(meant) > 0 { // a method needs its module: others may get one of that name
		hint = nearest.Ask(meant)
	}
	see := "see kernos help"
	if hint != "" {
		see = hint + " See kernos help"
	}
	return &exit.Error{Status: exit.Unknown, Cause: fmt.Errorf("unknown command %q; %s", word, see)}
}

// meant returns the commands that call methods of this name, of any module, or else the kernel's own methods that people
// call by this word. A lone word that follows may name an unlisted method of a module with such a name.
func (c *call) meant(method string) (commands []string) {
	if c.catalog == nil {
		return nil
	}
	for _, m := range c.catalog.Modules {
		if slices.Contains(m.Methods, method) {
			commands = append(commands, "kernos "+m.Namespace+" "+method)
		}
	}
	if r, err := definitions(); len(commands) == 0 && err == nil && (len(c.Words) == 1 || c.HasParameters) {
		for s := range r.All().Syscalls() {
			module, name := kernel.Method(s.Type)
			if m := c.catalog.Module(module); m != nil && slices.Contains(m.Methods, name) && nearest.Lists(s.Words, method) {
				commands = append(commands, "kernos "+module+" "+name)
			}
		}
	}
	return commands
}

// fullName returns the name that the method is called by.
func (c *call) fullName() string { return c.module + "_" + c.name }

// failureStatus returns the status for a call that was answered with an error.
func failureStatus(code int, g *client.Guidance) int {
	if g != nil {
		switch g.ErrorKind {
		case client.ModuleNotFound, client.MethodNotFound:
			return exit.Unknown
		case client.InvalidParams:
			return exit.Invalid
		}
	}
	if code == 404 {
		return exit.Failure // the syscall exists; the thing that it was asked for doesn't
	}
	return exit.StatusOf(code)
}

// invalid returns the error of parameters that the method does not take. Nothing was sent.
func (c *call) invalid(params json.RawMessage, err error) error {
	c.screen.Note("%s", visible.Text(err.Error()))
	name := c.module + "." + c.name
	g := &client.Guidance{ErrorKind: client.InvalidParams, Method: name, Action: client.TryMethod, SuggestedMethod: name}
	if c.method != nil {
		g.ExampleParams = c.method.Example()
	}
	c.guide(g, params)
	return &exit.Error{Status: exit.Invalid}
}
