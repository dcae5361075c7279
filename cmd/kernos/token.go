package main

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"kernos/capability/token"
	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/quantity"
	"kernos/kernel/principal"
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

The commands below give callers tokens of their own, with a name and rights. All that a
token sends is recorded with its name.`,
		Example: `  curl -H "Authorization: Bearer $(kernos token)" http://127.0.0.1:7420/v1/call/kernel/status -d '{}'
  kernos token create ci --allow 'Memory.*' --memory ci --expires 30d
  kernos token list
  kernos token revoke ci`,
		Args: noArguments,
	}, "text", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		return defaultToken(c, s, o, file, renew)
	})
	settings.AddTokenFile(c, &file)
	c.Flags().BoolVar(&renew, "new", false, "replace the default token, and end the connections that use it")
	c.AddCommand(tokenCreateCommand(), tokenUpdateCommand(),
		sends(&cobra.Command{
			Use:   "rotate NAME",
			Short: "Replace a token by a new one with the same rights, and print it once",
			Args:  oneListed("token"),
		}, "text", "Token.Rotate", named, nil),
		sends(&cobra.Command{
			Use:   "revoke NAME",
			Short: "Take a token back; its connections end at once",
			Long: `Take a token back; its connections end at once. kernos mcp makes the token mcp again, with the
preset agent, when a client starts it the next time. To keep clients out, or to narrow what they
may do, change it instead: kernos token update mcp --deny '*'.`,
			Args: oneListed("token"),
		}, "text", "Token.Revoke", named, nil),
		sends(&cobra.Command{
			Use:     "list",
			Short:   "List the tokens, and what they may do",
			Example: "  kernos token list\n  kernos token list --jq '.tokens[] | select(.expired) | .name'",
			Args:    noArguments,
		}, "table", "Token.List", nothing, nil),
		sends(&cobra.Command{
			Use:   "show NAME",
			Short: "Show what a token may do",
			Args:  oneListed("token"),
		}, "text", "Token.Show", named, nil))
	for _, sub := range c.Commands() {
		if sub.Name() != "create" && sub.Name() != "list" {
			sub.ValidArgsFunction = completesFirst(line.KnownTokens)
		}
	}
	return c
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
			err = server.Read(ctx, call, message.KindCommand, "Token.Rotate", named([]string{token.DefaultName}), &made)
			return cmp.Or(err, exit.Wrap(done()), writeValue(ctx, s, o, map[string]string{"token": made.Token}, func() error { return s.Line(made.Token) }))
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

// secret prints the secret in a reply alone.
var secret = shows(func(reply *struct{ Token string }, s *terminal.Screen) error { return s.Line(reply.Token) })

// grantFlags are the flags for what a token may do.
type grantFlags struct {
	principal.Grant
	preset  string
	expires quantity.PositiveDuration
}

// add adds the flags to a command, whose help names the preset that a token has without --preset.
func (g *grantFlags) add(c *cobra.Command, preset string) {
	f := c.Flags()
	f.StringVar(&g.preset, "preset", "", "what the token may do to begin with: `NAME` is agent, handler, viewer or console (default: "+preset+")")
	f.StringSliceVar(&g.Allow, "allow", nil, "syscalls that it may call too, as a `PATTERN`: Memory.*, *.Get, Http.Fetch")
	f.StringSliceVar(&g.Deny, "deny", nil, "syscalls that it may not call, as a `PATTERN`, whatever else allows them")
	f.BoolVar(&g.ReadOnly, "read-only", false, "only queries")
	f.StringSliceVar(&g.Memory, "memory", nil, "the `PREFIX` of the keys that it reaches (default: all)")
	f.StringSliceVar(&g.Files, "files", nil, "the `URI` of the files that it reaches, with :ro behind it to read them only (default: all)")
	f.Var(&g.expires, "expires", "how long it is valid, such as 12h or 30d (default: for ever)")
	f.Float64Var(&g.Rate, "rate", 0, "how many requests per second it may send (default: any `NUMBER`)")
}

// grant returns the grant that the flags describe.
func (g *grantFlags) grant() principal.Grant {
	g.Preset = principal.Preset(g.preset)
	if g.expires > 0 {
		g.Expires = time.Now().Add(time.Duration(g.expires)).UnixMilli()
	}
	return g.Grant
}

func tokenCreateCommand() *cobra.Command {
	var g grantFlags
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token, and print it once",
		Long: `Make a token for a caller, and print it, alone, on the standard output. It is shown this
once: the kernel keeps a hash of it. --json prints what Token.Create replies.

The presets are:
  agent    memory, files, Http.Fetch, sealing, its own history, and whatever programs serve;
           it doesn't open secrets, change settings, end the kernel or serve syscalls
  handler  serves syscalls on a connection, and nothing else
  viewer   queries, and the history of all callers
  console  all that the owner may do, but tokens, opening secrets, backups and ending the kernel

Ping, listing and describing are always allowed.`,
		Example: `  kernos token create ci --allow 'Memory.*,Http.Fetch' --memory ci --expires 30d
  kernos token create dashboard --preset viewer --rate 10
  kernos token create docs --read-only --files os://docs:ro`,
		Args: one("give the token a name: kernos token create NAME"),
	}
	g.add(c, "agent; nothing, if --allow is given")
	return sends(c, "text", "Token.Create", func(args []string) any { return line.TokenRequest{Name: args[0], Grant: g.grant()} }, nil)
}

func tokenUpdateCommand() *cobra.Command {
	var g grantFlags
	var take []string
	c := &cobra.Command{
		Use:   "update NAME",
		Short: "Change what a token may do",
		Long: `Change what a token may do. Patterns are added to those that the token has; --take takes
some away. Other flags replace what it has. Its connections end, and begin again with the
new rights.`,
		Example: `  kernos token update ci --allow Crypto.Open
  kernos token update ci --take Crypto.Open --rate 5`,
		Args: oneListed("token"),
	}
	g.add(c, "the one that it has")
	c.Flags().StringSliceVar(&take, "take", nil, "a `PATTERN` to take out of what is allowed and denied, or a limit to lift: read-only, memory, files, expires, rate")
	return sends(c, "text", "Token.Update", func(args []string) any { return line.TokenRequest{Name: args[0], Grant: g.grant(), Take: take} }, nil)
}
