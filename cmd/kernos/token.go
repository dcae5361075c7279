package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"kernos/capability/token"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/message"
	httpd "kernos/transport/http"
)

func tokenCommand() *cobra.Command {
	var file string
	var renew bool
	c := prints(&cobra.Command{
		Use:   "token",
		Short: "Print the default token, and manage who may do what",
		Long: `Print the default token: callers send it over the TCP address of the daemon, by HTTP or
by a WebSocket. It may do what an agent may do (kernos token show default), and is in the
file token in the home directory, which only its owner may read. Callers over the sockets
of the daemon need no token: they are the owner.

The methods of the module token give callers tokens of their own, with a name and rights:
create, update, rotate, revoke, list and show; kernos token METHOD --help says what one
takes. All that a token sends is recorded with its name. The presets are:

  agent    memory, files, Http.Fetch, sealing, its own history, and whatever programs serve;
           it doesn't open secrets, change settings, end the kernel or serve syscalls
  handler  serves syscalls on a connection, and nothing else
  viewer   queries, and the history of all callers
  console  all that the owner may do, but tokens, opening secrets, backups and ending the kernel

Ping, listing and describing are always allowed.`,
		Example: `  curl -H "Authorization: Bearer $(kernos token)" http://127.0.0.1:7420/v1/call/kernel/status -d '{}'
  kernos token create ci --allow 'Memory.*' --memory ci --expires 30d
  kernos token create dashboard --preset viewer --rate 10
  kernos token create docs --read-only --files os://docs:ro
  kernos token update ci --take Crypto.Open --rate 5
  kernos token list --jq '.tokens[] | select(.expired) | .name'
  kernos token revoke ci`,
		Args: noArguments,
	}, "text", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		return defaultToken(c, s, o, file, renew)
	})
	settings.AddTokenFile(c, &file)
	c.Flags().BoolVar(&renew, "new", false, "replace the default token, and end the connections that use it")
	return moduleCommand(c)
}

// defaultToken writes the default token, which it replaces first if that is wanted. A running daemon replaces
// its own token itself.
func defaultToken(c *cobra.Command, s *terminal.Screen, o terminal.Output, file string, renew bool) error {
	if err := settings.Complete(c); err != nil {
		return err
	}
	home, err := settings.UsableHome()
	if err != nil {
		return err
	}
	path := cmp.Or(file, home.Token())
	if _, _, running := home.FindDaemon(""); renew && running && file == "" {
		return exit.OnSignal(c.Context(), func(ctx context.Context) error {
			call, done, err := opener(c, inProcess)(ctx)
			if err != nil {
				return exit.Wrap(err)
			}
			var made struct{ Token string }
			err = server.Read(ctx, call, message.KindCommand, "Token.Rotate", named{token.DefaultName}, &made)
			if err = cmp.Or(err, exit.Wrap(done())); err != nil {
				return err
			}
			return writeValue(ctx, s, o, map[string]string{"token": made.Token}, func() error { return s.Line(made.Token) })
		})
	}
	if renew {
		if err := httpd.ReplaceToken(path); err != nil {
			return exit.Wrap(err)
		}
	}
	t, err := httpd.OpenToken(path)
	if err != nil {
		return exit.Wrap(err)
	}
	value, err := t.Value()
	if err != nil {
		return exit.Wrap(err)
	}
	return writeValue(c.Context(), s, o, map[string]string{"token": value}, func() error { return s.Line(value) })
}
