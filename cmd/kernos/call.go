package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kernos/client"
	"kernos/cmd/kernos/callline"
	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/output"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/nearest"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
)

func callCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "call TYPE [--PARAMETER VALUE …]",
		Short: "Call one method; kernos MODULE METHOD is the same",
		Long: `Call one method of a server and show the data that it answers with. What there is to
call, and which parameters it takes, is asked of the server: kernos call lists the
modules, kernos MODULE the methods of one, and kernos MODULE METHOD --help says what a
method takes. The daemon is called, and started if it is not running, unless a context
says otherwise (kernos context).

A method is written as a type, Memory.Get, as a method, memory_get, or as two words,
memory get. Parameters are written

  --key VALUE          as the parameter wants it: a text, a number, true or false
  --owner.name VALUE   a field within a parameter
  --tag a --tag b      a list
  --key=VALUE          the same as --key VALUE, for a VALUE that looks like a flag below
  key=VALUE            the same
  key:=JSON            any JSON
  key=@FILE            what is in a file; @- is standard input
  --data JSON          all of them as one object; - is standard input, @FILE a file
  -- VALUE …           values of parameters that are not given, in the order of the help,
                       each as it is, whatever it looks like

Data goes to standard output, progress and everything else to standard error. The status
is 1 if an error came back, 3 if the server does not allow it, 4 if it can't be reached,
5 for parameters that the method does not take, 6 for a method that is not there.

These flags are not parameters; a parameter of such a name is written NAME=VALUE:

` + callline.FlagsHelp(),
		Example: `  kernos memory set --key notes/1 --value milk
  kernos call Memory.Get key=notes/1 --jq .
  kernos memory get -- "$key"
  kernos memory list --output table --context office
  kernos call kernel_ping payload:=[1,2] --as curl`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, args []string) error { return runCall(c, args) },
		ValidArgsFunction:     completeCall,
	}
	listsItsFlags(c)
	return c
}

// listsItsFlags leaves the flags of a command that reads them itself to its own help text
// and completion.
func listsItsFlags(c *cobra.Command) {
	c.Flags().BoolP("help", "h", false, "")
	_ = c.Flags().MarkHidden("help")
}

// asModule turns a command line that begins with no command into a call: the word is the
// name of a module. Flags of kernos call may stand before it, or before a command.
func asModule(root *cobra.Command, args []string) []string {
	at := 0
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		at = 1
		if len(args) == 2 {
			return args // the first word is being written
		}
	}
	first := at
	for first < len(args) && callline.IsFlag(args[first]) {
		own, _, hasValue := callline.Find(args[first])
		if own == nil || own.Name == "help" {
			return args // a flag of kernos itself
		}
		if first++; callline.TakesValue(own) && !hasValue {
			first++
		}
	}
	if len(args) <= at {
		return args
	}
	command := "call"
	behind := args[min(first, len(args)):]
	if first < len(args) && isCommand(root, args[first]) {
		command, behind = args[first], args[first+1:]
	}
	return slices.Concat(args[:at], []string{command}, args[at:min(first, len(args))], behind)
}

func isCommand(root *cobra.Command, word string) bool {
	switch word {
	case "help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return true
	}
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) })
}

// A calling is one call, from its command line to its exit status.
type calling struct {
	*callline.Line
	root     *cobra.Command
	server   *connect.Server
	screen   *terminal.Screen
	in       io.Reader
	conn     *client.Client
	cache    *client.Cache
	catalog  *client.Catalog // nil if it can't be had
	module   string
	name     string         // of the method
	method   *client.Method // nil if its schema can't be had
	unlisted bool           // the catalog does not list it
}

func runCall(c *cobra.Command, args []string) error {
	line, err := callline.Read(args)
	if err != nil {
		return fmt.Errorf("%w; see kernos call --help", err)
	}
	if line.Help && len(line.Words) == 0 {
		call, _, err := c.Root().Find([]string{"call"})
		if err != nil {
			return err
		}
		return call.Help()
	}
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	call := &calling{Line: line, root: c.Root(), screen: terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr()), in: c.InOrStdin(), cache: client.OpenCache("")}
	err = call.run(ctx)
	if call.conn != nil {
		_ = call.conn.Close()
	}
	if ctx.Err() != nil && err != nil {
		return &exit.Error{Status: exit.Interrupted}
	}
	return err
}

func (c *calling) run(ctx context.Context) (err error) {
	if c.server, err = connect.FindServer(c.Context, c.Server); err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	if err := c.discover(ctx); err != nil {
		return err
	}
	if len(c.Words) == 0 {
		return c.showModules()
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	switch {
	case c.name == "":
		return c.showModule(ctx)
	case c.Help:
		return c.showMethod()
	}
	params, err := c.Parameters(c.method, c.in)
	if err != nil {
		return c.refused(params, err)
	}
	if params, err = c.complete(ctx, params); err != nil {
		return err
	}
	if c.method != nil {
		if err := c.method.Validate(params); err != nil {
			return c.invalid(params, err)
		}
	}
	if c.Given("as") || c.DryRun {
		return c.showRequest(params)
	}
	return c.send(ctx, params)
}

// connect connects to the server. The daemon of this user is started if it is not running.
// A command line that sends nothing does with what the cache has.
func (c *calling) connect(ctx context.Context) (err error) {
	start := c.startable()
	c.conn, err = c.server.Dial(ctx, start)
	if err == nil {
		return nil
	}
	if _, unreachable := errors.AsType[*client.Unreachable](err); unreachable && !start {
		return c.noCommand(c.Words[0])
	}
	if _, cacheErr := c.cache.Latest(c.server.Target); cacheErr == nil && (c.Help || c.DryRun || c.Given("as") || len(c.Words) == 0) {
		c.screen.Note("%v; what is shown is what the server had when it was last called", err)
		return nil
	}
	return c.server.Explain(err)
}

// startable reports whether it makes sense to start the daemon for this command line. A
// lone word that no module has is a slip; what servers elsewhere have is not known here.
func (c *calling) startable() bool {
	if c.server.Daemon == nil || len(c.Words) != 1 || strings.ContainsAny(c.Words[0], "._") || c.HasParameters {
		return true
	}
	r, err := daemon.Definitions()
	if err != nil {
		return true
	}
	_, module := r.LookupNamespace(strings.ToLower(c.Words[0]))
	_, syscall := r.Lookup(message.Type(c.Words[0]))
	return module || syscall
}

// discover learns what the server offers. If it can't, parameters are sent as they are.
func (c *calling) discover(ctx context.Context) (err error) {
	if c.conn == nil {
		c.catalog, err = c.cache.Latest(c.server.Target)
		return err
	}
	c.catalog, err = client.Discover(ctx, c.conn, c.cache)
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
func (c *calling) find(ctx context.Context) error {
	words := c.Words
	if c.catalog == nil {
		c.module, c.name = splitName(words)
		if len(words) == 1 && c.name == "" {
			return fmt.Errorf("say which method of %s: kernos %s METHOD", words[0], words[0])
		}
		return nil
	}
	var one *client.Module
	for i := range c.catalog.Modules {
		if client.Fold(c.catalog.Modules[i].Namespace) == client.Fold(words[0]) {
			one = &c.catalog.Modules[i]
		}
	}
	named := false // by one word
	switch {
	case one != nil && len(words) == 1:
		c.module = one.Namespace
		return nil
	case one != nil:
		c.module, c.name = one.Namespace, words[1]
		for _, m := range one.Methods {
			if client.Fold(m) == client.Fold(words[1]) {
				c.name = m
			}
		}
	default:
		if c.module, c.name, named = c.catalog.Find(words[0]); named {
			break
		}
		if c.module, c.name = splitName(words); c.name == "" {
			return c.noCommand(words[0])
		}
	}
	m, err := c.catalog.Method(ctx, c.module, c.name)
	if _, unknown := errors.AsType[*client.Unknown](err); unknown {
		c.unlisted = true // the server may have it all the same
		return nil
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.screen.Note("%v; parameters are sent as they are", err)
	}
	c.method = m
	if named && len(words) == 2 {
		return callline.Stray(m, words[1])
	}
	return nil
}

// splitName makes a module and a method of a name that nobody has listed.
func splitName(words []string) (module, name string) {
	if len(words) == 2 {
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

// noCommand is the error of a lone word that is neither a command nor a module.
func (c *calling) noCommand(word string) error {
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
	if len(word) <= shortWord { // many short names are near to each other
		first := strings.ToLower(word[:min(1, len(word))])
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(strings.ToLower(name), first) })
	}
	hint := nearest.Hint(word, names)
	if word == "version" {
		hint = "did you mean kernos --version?"
	}
	if hint != "" {
		hint += " "
	}
	return fmt.Errorf("there is no command %q; %skernos help lists them, and kernos call the modules", word, hint)
}

// call is the name that the method is called by.
func (c *calling) call() string { return c.module + "_" + c.name }

// send makes the call and shows what comes.
func (c *calling) send(ctx context.Context, params json.RawMessage) error {
	out, err := output.NewPrinter(c.screen, output.Options{Mode: c.Output, Filter: c.JQ, Template: c.Template, Templates: connect.UserTemplates()})
	if err != nil {
		return err
	}
	stream, err := c.conn.Stream(ctx, c.call(), params)
	if err != nil {
		return c.server.Explain(err)
	}
	defer func() { _ = stream.Close() }()
	bar := terminal.NewBar(c.screen.Err)
	defer bar.Clear()
	var guidance *client.Guidance
	var failure *client.Item
	for item, err := range stream.Items(ctx) {
		if err != nil {
			return c.server.Explain(err)
		}
		switch item.Type {
		case client.Progress:
			bar.Show(item.Message, item.Percentage)
		case client.Data:
			failure = nil
			bar.Clear()
			if err := out.Print(ctx, &item); err != nil {
				return err
			}
			c.remember(params, item.Data)
		case client.Guide:
			guidance = item.Guidance
		case client.Error:
			failure = &item
		}
	}
	bar.Clear()
	if failure != nil {
		return c.failed(failure, guidance, params)
	}
	return nil
}

// failureStatus is the status for a call that was answered with an error.
func failureStatus(code int, g *client.Guidance) int {
	if g != nil {
		switch g.ErrorKind {
		case client.ModuleNotFound, client.MethodNotFound:
			return exit.Unknown
		case client.InvalidParams:
			return exit.Invalid
		}
	}
	switch code {
	case 401, 403:
		return exit.Forbidden
	case 400, 422:
		return exit.Invalid
	}
	return exit.Failure
}

// refused is the error of a command line that makes no parameters, but for some.
func (c *calling) refused(params json.RawMessage, err error) error {
	if _, ok := errors.AsType[*callline.Invalid](err); !ok {
		return err
	}
	return c.invalid(params, err)
}

// invalid is the error of parameters that the method does not take. Nothing was sent.
func (c *calling) invalid(params json.RawMessage, err error) error {
	c.screen.Note("%s", visible.Text(err.Error()))
	c.guide(&client.Guidance{ErrorKind: client.InvalidParams, Method: c.module + "." + c.name, Action: client.TryMethod,
		SuggestedMethod: c.module + "." + c.name, ExampleParams: c.example()}, params)
	return &exit.Error{Status: exit.Invalid}
}

func (c *calling) example() json.RawMessage {
	if c.method == nil {
		return nil
	}
	return c.method.Example()
}
