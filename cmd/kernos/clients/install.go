package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/cmd/kernos/terminal"
	"kernos/cmd/kernos/tokens"
	"kernos/internal/nearest"
	"kernos/message"
)

// Self returns what a client starts that acts for a token of this name: this program, with the home and the
// origin that are chosen now.
func Self(as string) (Server, error) {
	program, err := os.Executable()
	if err != nil {
		return Server{}, exit.Wrap(err)
	}
	s := Server{Command: program, Args: []string{"mcp", "--as", as}, Env: map[string]string{}}
	for _, name := range []string{"KERNOS_HOME", "KERNOS_ORIGIN"} {
		if value := os.Getenv(name); value != "" {
			s.Env[name] = value
		}
	}
	if dir := s.Env["KERNOS_HOME"]; dir != "" {
		if s.Env["KERNOS_HOME"], err = filepath.Abs(dir); err != nil {
			return Server{}, exit.Wrap(err)
		}
	}
	return s, nil
}

// Names returns the names of the clients.
func Names() (names []string) {
	for _, c := range known() {
		names = append(names, c.Name)
	}
	return names
}

// Unknown returns the error for a name that no client has.
func Unknown(name string) error {
	names := Names()
	text := fmt.Sprintf("kernos doesn't know the client %q: ", name)
	if hint := nearest.Hint(name, names); hint != "" {
		text += hint + " "
	}
	return fmt.Errorf("%sit knows %s; any other one can start kernos mcp --as NAME", text, strings.Join(names, ", "))
}

// List shows the clients, and which of them have Kernos.
func List(s *terminal.Screen) error {
	var rows [][]string
	for _, c := range known() {
		path, err := c.path()
		if err != nil {
			return exit.Wrap(err)
		}
		state := "-"
		if text, err := os.ReadFile(path); err == nil {
			if has, err := c.has(string(text)); err != nil {
				state = "can't be read"
			} else if state = "no"; has {
				state = "yes"
			}
		}
		rows = append(rows, []string{c.Name, c.title, state, path})
	}
	return s.Table([]string{"CLIENT", "NAME", "INSTALLED", "FILE"}, rows)
}

// An Installation is one change of a client's file, made or undone.
type Installation struct {
	Client Client
	Screen *terminal.Screen
	In     io.Reader // the person's answer is read here
	Yes    bool      // the person has agreed already

	// Ask asks a kernel.
	Ask func(func(context.Context, request.Caller) error) error
}

// Make makes the change, with the token of the client.
func (i *Installation) Make(ctx context.Context, s Server, folder string) error {
	change, err := i.Client.install(s, folder)
	return i.run(ctx, change, err, i.introduce, i.Client.next)
}

// Undo makes the file what it was, and revokes the token that the installation made.
func (i *Installation) Undo(ctx context.Context, folder string) error {
	change, err := i.Client.undo(folder)
	return i.run(ctx, change, err, i.forget, i.Client.title+" no longer starts kernos, from its next start on")
}

// run shows the change, asks, does what belongs to it in the kernel, and makes it.
func (i *Installation) run(ctx context.Context, change *fileChange, err error, kernel func(context.Context, request.Caller, *fileChange) error, done string) error {
	if err != nil {
		path, _ := i.Client.path()
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("%s can't be changed: %w", path, err)}
	}
	if change.empty() {
		i.Screen.Note("%s needs no change", change.path)
		return nil
	}
	if err := i.Screen.Line(change.path); err != nil {
		return err
	}
	for _, line := range difference(change.before, change.after) {
		style := terminal.Plain
		switch line[0] {
		case '+':
			style = terminal.Green
		case '-':
			style = terminal.Red
		}
		if err := i.Screen.Line(i.Screen.Paint(style, line)); err != nil {
			return err
		}
	}
	if agreed, err := i.agreed(ctx); err != nil || !agreed {
		return err
	}
	return i.Ask(func(ctx context.Context, call request.Caller) error {
		if err := kernel(ctx, call, change); err != nil {
			return err
		}
		if err := change.apply(); err != nil {
			return exit.Wrap(err)
		}
		i.Screen.Note("%s", done)
		return nil
	})
}

// agreed asks whether the change is to be made.
func (i *Installation) agreed(ctx context.Context) (bool, error) {
	if i.Yes {
		return true, nil
	}
	in := terminal.Person(i.In)
	if in == nil {
		return false, &exit.Error{Status: exit.Usage, Cause: errors.New("nothing was changed, since the input isn't a terminal where you could agree; --yes makes the change")}
	}
	yes, err := terminal.Agrees(ctx, in, i.Screen.Err, "Make this change? [y/N] ")
	if err != nil && err != io.EOF {
		return false, exit.Wrap(err)
	}
	if !yes {
		i.Screen.Note("nothing was changed")
	}
	return yes, nil
}

// introduce makes the client's token, unless there is one.
func (i *Installation) introduce(ctx context.Context, call request.Caller, change *fileChange) error {
	made, err := tokens.Make(ctx, call, i.Client.Name)
	change.token = change.token || made
	return err
}

// forget revokes the token that the installation made.
func (i *Installation) forget(ctx context.Context, call request.Caller, change *fileChange) error {
	if !change.token {
		return nil
	}
	_, err := request.Send(ctx, call, message.KindCommand, "Token.Revoke", map[string]string{"name": i.Client.Name}, nil)
	if e, ok := errors.AsType[*message.Error](err); ok && e.Code == 404 {
		return nil
	}
	return err
}
