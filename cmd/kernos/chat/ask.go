package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/nearest"
	"kernos/internal/visible"
	"kernos/message"
)

// Introduce prints which model answers. If none is configured, it offers those that it finds.
func Introduce(ctx context.Context, call server.Caller, s *terminal.Screen, in *os.File, model string, local bool) error {
	known, err := Models(ctx, call)
	if err != nil {
		return err
	}
	configured := slices.ContainsFunc(known, func(m ListedModel) bool { return m.Source != "built-in" })
	if !configured && model == "" {
		connected, err := offerFound(ctx, call, s, in, Detect(ctx, local))
		if err != nil || connected {
			return err
		}
	}
	if !configured || model == "demo" {
		for _, line := range []string{
			"The model demo answers: 5 million parameters, built in, for trying things out.",
			"To talk with a real one: kernos model detect, then kernos model add NAME.",
		} {
			if err := s.Line(s.Paint(terminal.Faint, terminal.Hang(line, 0, s.Width))); err != nil {
				return err
			}
		}
		return nil
	}
	return s.Line(s.Paint(terminal.Faint, visible.Text("The model "+cmp.Or(model, "default")+" answers; /help lists the commands.")))
}

// offerFound asks about each model that was found until one is connected.
func offerFound(ctx context.Context, call server.Caller, s *terminal.Screen, in *os.File, found []Found) (connected bool, err error) {
	for _, f := range found {
		question := fmt.Sprintf("%s has %s. Connect it?", visible.Text(f.Name+" at "+f.Host()), visible.Text(f.Model))
		if f.Variable != "" {
			question = fmt.Sprintf("%s is set. Seal this key for %s, and connect %s?", f.Variable, visible.Text(f.Host()), visible.Text(f.Model))
		}
		yes, err := terminal.Agrees(ctx, in, s.Out, terminal.Hang(question+" [y/N]", 0, s.Width)+" ")
		if err != nil {
			return false, exit.Wrap(err)
		}
		if !yes {
			continue
		}
		if _, err := server.Send(ctx, call, message.KindCommand, "Model.Add", f.Addition(), nil); err != nil {
			text := fmt.Sprintf("%s isn't connected: %v", f.Name, err)
			if err := s.Line(s.Paint(terminal.Red, terminal.Hang(visible.Text(text), 0, s.Width))); err != nil {
				return false, err
			}
			continue
		}
		return true, s.Line(s.Paint(terminal.Faint, visible.Text(f.Name+" answers; /help lists the commands.")))
	}
	return false, nil
}

// ShowFound writes the models that were found as a table.
func ShowFound(s *terminal.Screen, found []Found) error {
	if len(found) == 0 {
		s.Note("no model server answers on this machine, and no variable has the key of a provider; kernos model add PROVIDER asks for a key")
		return nil
	}
	var rows [][]string
	for _, f := range found {
		more := cmp.Or(f.Variable, strings.Join(f.Models, ", "))
		rows = append(rows, []string{f.Name, f.Host(), f.Model, more})
	}
	if err := s.Table([]string{"NAME", "HOST", "MODEL", "MODELS, OR VARIABLE OF THE KEY"}, rows); err != nil {
		return err
	}
	s.Note("kernos model add %s connects it; --model MODEL chooses another model", visible.Text(found[0].Name))
	return nil
}

// Wanted returns the model that is to be added, with its key, which is asked for if it is needed and not known: a
// provider needs one, and a server does if withKey is set. If the kernel is on this machine, local is true. A request that
// is only shown has no key.
func Wanted(ctx context.Context, s *terminal.Screen, in io.Reader, wanted Found, withKey, local, shown bool) (Found, error) {
	f, err := choose(wanted, append(Detect(ctx, local), Providers()...))
	if err == nil && f.Key == "" && !shown && (f.Variable != "" || withKey) {
		f.Key, err = readKey(ctx, in, s.Err, f.Host())
	}
	return f, err
}

// choose returns the model with the name that is wanted, changed by the flags.
func choose(wanted Found, known []Found) (Found, error) {
	f := Found{Name: wanted.Name, Dialect: "openai-chat"}
	at := slices.IndexFunc(known, func(k Found) bool { return k.Name == wanted.Name })
	if wanted.BaseURL == "" {
		if at < 0 {
			var names []string
			for _, k := range known {
				names = append(names, k.Name)
			}
			hint := cmp.Or(nearest.Hint(wanted.Name, names), "kernos model detect looks for models; --url connects any other server")
			return f, fmt.Errorf("no model %s was found, and no provider has that name: %s", wanted.Name, hint)
		}
		f = known[at]
	}
	f.BaseURL, f.Model = cmp.Or(wanted.BaseURL, f.BaseURL), cmp.Or(wanted.Model, f.Model)
	if f.Model == "" {
		return f, errors.New("name the model that the server is asked for: --model NAME")
	}
	return f, nil
}

// readKey asks for a key, or reads it from standard input.
func readKey(ctx context.Context, from io.Reader, people io.Writer, host string) (key string, err error) {
	key, err = terminal.AskSecret(ctx, from, people, fmt.Sprintf("key for %s (what you type is not shown): ", visible.Text(host)))
	key, _, _ = strings.Cut(strings.TrimSpace(key), "\n")
	if key = strings.TrimSpace(key); key == "" {
		return "", fmt.Errorf("no key for %s was given: set its environment variable, type the key, or send it to standard input", host)
	}
	return key, err
}
