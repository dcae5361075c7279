package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/clientconfig"
	"kernos/internal/exit"
	"kernos/internal/nearest"
	"kernos/message"
)

func mcpInstallCommand() *cobra.Command {
	var yes, undo, print bool
	c := &cobra.Command{
		Use:   "install [CLIENT]",
		Short: "Enter Kernos into the configuration of an LLM client",
		Long: `Enter Kernos into the configuration file of an LLM client, as an MCP server that the client
starts. The change is shown first, and made when you agree. Everything else in the file stays
as it is, with its comments. Without CLIENT, the clients are listed.

The client acts for a token of its own (preset agent), which has the client's name: kernos log
names it, and kernos token update CLIENT changes what it may do. The file has no secret in it.`,
		Example: `  kernos mcp install claude-code
  kernos mcp install cursor --yes
  kernos mcp install vscode --print
  kernos mcp install codex --undo`,
		Args: arguments(0, 1, "name one client: kernos mcp install CLIENT"),
		RunE: func(c *cobra.Command, args []string) error {
			s := terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr())
			if len(args) == 0 {
				return listClients(s)
			}
			client, ok := clientconfig.Find(args[0])
			if !ok {
				return unknownClient(args[0])
			}
			launched, err := self(client.Name)
			if err != nil {
				return err
			}
			if print {
				text, err := client.Render(launched)
				if err != nil {
					return err
				}
				return s.Write(text)
			}
			home, err := settings.UsableHome()
			if err != nil {
				return err
			}
			i := installation{
				client: client, screen: s, in: c.InOrStdin(), yes: yes,
				ask: func(f func(context.Context, server.Caller) error) error {
					return exit.OnSignal(c.Context(), func(ctx context.Context) error {
						call, done, err := opener(c, inProcess)(ctx)
						if err != nil {
							return exit.Wrap(err)
						}
						return cmp.Or(f(ctx, call), exit.Wrap(done()))
					})
				},
			}
			if undo {
				return i.undo(c.Context(), home.Clients())
			}
			return i.install(c.Context(), launched, home.Clients())
		},
		ValidArgsFunction: completesFirst(func(context.Context, server.Opener) []string { return clientconfig.Names() }),
	}
	f := c.Flags()
	f.BoolVarP(&yes, "yes", "y", false, "make the change without asking")
	f.BoolVar(&undo, "undo", false, "make the file what it was, and revoke the client's token")
	f.BoolVar(&print, "print", false, "print what a file would have, and change nothing")
	c.MarkFlagsMutuallyExclusive("undo", "print")
	return c
}

// self returns what a client starts that acts for a token of this name: this program, with the home and the
// origin that are chosen now.
func self(as string) (clientconfig.Server, error) {
	program, err := os.Executable()
	if err != nil {
		return clientconfig.Server{}, exit.Wrap(err)
	}
	s := clientconfig.Server{Command: program, Args: []string{"mcp", "--as", as}, Env: map[string]string{}}
	for _, name := range []string{"KERNOS_HOME", "KERNOS_ORIGIN"} {
		if value := os.Getenv(name); value != "" {
			s.Env[name] = value
		}
	}
	if dir := s.Env["KERNOS_HOME"]; dir != "" {
		if s.Env["KERNOS_HOME"], err = filepath.Abs(dir); err != nil {
			return clientconfig.Server{}, exit.Wrap(err)
		}
	}
	return s, nil
}

// unknownClient returns the error for a name that no client has.
func unknownClient(name string) error {
	names := clientconfig.Names()
	text := fmt.Sprintf("kernos doesn't know the client %q: ", name)
	if hint := nearest.Hint(name, names); hint != "" {
		text += hint + " "
	}
	return fmt.Errorf("%sit knows %s; any other one can start kernos mcp --as NAME", text, strings.Join(names, ", "))
}

// listClients shows the clients, and which of them have Kernos.
func listClients(s *terminal.Screen) error {
	var rows [][]string
	for _, c := range clientconfig.Known() {
		path, err := c.Path()
		if err != nil {
			return exit.Wrap(err)
		}
		state := "-"
		if text, err := os.ReadFile(path); err == nil {
			if has, err := c.Has(string(text)); err != nil {
				state = "can't be read"
			} else if state = "no"; has {
				state = "yes"
			}
		}
		rows = append(rows, []string{c.Name, c.Title, state, path})
	}
	return s.Table([]string{"CLIENT", "NAME", "INSTALLED", "FILE"}, rows)
}

// An installation is one change of a client's file, made or undone.
type installation struct {
	client clientconfig.Client
	screen *terminal.Screen
	in     io.Reader // the person's answer is read here
	yes    bool      // the person has agreed already

	// ask asks a kernel.
	ask func(func(context.Context, server.Caller) error) error
}

// install makes the change, with the token of the client.
func (i *installation) install(ctx context.Context, s clientconfig.Server, folder string) error {
	change, err := i.client.Install(s, folder)
	return i.run(ctx, change, err, i.introduce, i.client.Next)
}

// undo makes the file what it was, and revokes the token that the installation made.
func (i *installation) undo(ctx context.Context, folder string) error {
	change, err := i.client.Undo(folder)
	return i.run(ctx, change, err, i.forget, i.client.Title+" no longer starts kernos, from its next start on")
}

// run shows the change, asks, does what belongs to it in the kernel, and makes it.
func (i *installation) run(ctx context.Context, change *clientconfig.Change, err error, kernel func(context.Context, server.Caller, *clientconfig.Change) error, done string) error {
	if err != nil {
		path, _ := i.client.Path()
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("%s can't be changed: %w", path, err)}
	}
	if change.Empty() {
		i.screen.Note("%s needs no change", change.Path)
		return nil
	}
	if err := i.screen.Line(change.Path); err != nil {
		return err
	}
	for _, line := range clientconfig.Difference(change.Before, change.After) {
		style := terminal.Plain
		switch line[0] {
		case '+':
			style = terminal.Green
		case '-':
			style = terminal.Red
		}
		if err := i.screen.Line(i.screen.Paint(style, line)); err != nil {
			return err
		}
	}
	if agreed, err := i.agreed(ctx); err != nil || !agreed {
		return err
	}
	return i.ask(func(ctx context.Context, call server.Caller) error {
		if err := kernel(ctx, call, change); err != nil {
			return err
		}
		if err := change.Apply(); err != nil {
			return exit.Wrap(err)
		}
		i.screen.Note("%s", done)
		return nil
	})
}

// agreed asks whether the change is to be made.
func (i *installation) agreed(ctx context.Context) (bool, error) {
	if i.yes {
		return true, nil
	}
	in := terminal.Person(i.in)
	if in == nil {
		return false, &exit.Error{Status: exit.Usage, Cause: errors.New("nothing was changed, since the input isn't a terminal where you could agree; --yes makes the change")}
	}
	yes, err := terminal.Agrees(ctx, in, i.screen.Err, "Make this change? [y/N] ")
	if err != nil && err != io.EOF {
		return false, exit.Wrap(err)
	}
	if !yes {
		i.screen.Note("nothing was changed")
	}
	return yes, nil
}

// introduce makes the client's token, unless there is one.
func (i *installation) introduce(ctx context.Context, call server.Caller, change *clientconfig.Change) error {
	made, err := line.MakeToken(ctx, call, i.client.Name)
	change.Token = change.Token || made
	return err
}

// forget revokes the token that the installation made.
func (i *installation) forget(ctx context.Context, call server.Caller, change *clientconfig.Change) error {
	if !change.Token {
		return nil
	}
	_, err := server.Send(ctx, call, message.KindCommand, "Token.Revoke", map[string]string{"name": i.client.Name}, nil)
	if e, ok := errors.AsType[*message.Error](err); ok && e.Code == 404 {
		return nil
	}
	return err
}
