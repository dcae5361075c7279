package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kernos/capability/token"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/quantity"
	"kernos/kernel/principal"
	"kernos/message"
	httpd "kernos/transport/http"
)

func tokenCommand(open, openRunning opener) *cobra.Command {
	var file string
	var renew bool
	var form *forms
	c := &cobra.Command{
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
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(settings.Complete(c), form.check()); err != nil {
				return err
			}
			home, err := settings.UsableHome()
			if err != nil {
				return err
			}
			path := cmp.Or(file, home.Token())
			if _, _, running := home.FindDaemon(""); renew && running && file == "" {
				return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
					return (&answer{form, call, s}).secret(ctx, "Token.Rotate", map[string]string{"name": token.DefaultName})
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
			secret, err := t.Value()
			if err != nil {
				return exit.Wrap(err)
			}
			s := terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr())
			if print := form.printer(c.Context(), s, false); print != nil {
				data, err := json.Marshal(map[string]string{"token": secret})
				if err != nil {
					return exit.Wrap(err)
				}
				return print(data)
			}
			return s.Line(secret)
		},
	}
	settings.AddTokenFile(c, &file)
	c.Flags().BoolVar(&renew, "new", false, "replace the default token, and end the connections that use it")
	form = addForms(c, "text", "json")
	c.AddCommand(tokenCreateCommand(open), tokenUpdateCommand(open), tokenRotateCommand(open), tokenRevokeCommand(open), tokenListCommand(open), tokenShowCommand(open))
	for _, sub := range c.Commands() {
		if sub.Name() != "create" && sub.Name() != "list" {
			sub.ValidArgsFunction = firstArgument(complete(openRunning, knownTokens))
		}
	}
	return c
}

// listTokens asks for the tokens.
func listTokens(ctx context.Context, call caller) ([]token.Info, error) {
	var reply struct{ Tokens []token.Info }
	err := request.Read(ctx, call, message.KindQuery, "Token.List", struct{}{}, &reply)
	return reply.Tokens, err
}

// nameOf takes the name of a token as the only argument.
func nameOf(use string) cobra.PositionalArgs {
	return one("say which token: kernos token " + use + " NAME; kernos token list shows them")
}

// secret sends a request whose reply has a secret, and prints the secret alone, or the reply.
func (a *answer) secret(ctx context.Context, t message.Type, input any) error {
	return a.send(ctx, message.KindCommand, t, input, func(s *terminal.Screen, data json.RawMessage) error {
		var reply struct{ Token string }
		if err := request.Decode(t, data, &reply); err != nil {
			return err
		}
		return s.Line(reply.Token)
	})
}

// grantFlags are the flags that say what a token may do.
type grantFlags struct {
	principal.Grant
	preset  string
	expires quantity.PositiveDuration
}

// add adds the flags to a command, whose help says which preset a token has without --preset.
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

// grant returns what the flags say.
func (g *grantFlags) grant() principal.Grant {
	g.Preset = principal.Preset(g.preset)
	if g.expires > 0 {
		g.Expires = time.Now().Add(time.Duration(g.expires)).UnixMilli()
	}
	return g.Grant
}

// grantRequest is the input of Token.Create and Token.Update.
type grantRequest struct {
	Name string `json:"name"`
	principal.Grant
	Take []string `json:"take,omitempty"`
}

func tokenCreateCommand(open opener) *cobra.Command {
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
	return asks(c, open, "text", func(ctx context.Context, a *answer, args []string) error {
		return a.secret(ctx, "Token.Create", grantRequest{Name: args[0], Grant: g.grant()})
	})
}

func tokenUpdateCommand(open opener) *cobra.Command {
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
		Args: nameOf("update"),
	}
	g.add(c, "the one that it has")
	c.Flags().StringSliceVar(&take, "take", nil, "a `PATTERN` to take out of what is allowed and denied, or a limit to lift: read-only, memory, files, expires, rate")
	return asks(c, open, "text", func(ctx context.Context, a *answer, args []string) error {
		return a.send(ctx, message.KindCommand, "Token.Update", grantRequest{args[0], g.grant(), take}, showToken)
	})
}

func tokenRotateCommand(open opener) *cobra.Command {
	return asks(&cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace a token by a new one with the same rights, and print it once",
		Args:  nameOf("rotate"),
	}, open, "text", func(ctx context.Context, a *answer, args []string) error {
		return a.secret(ctx, "Token.Rotate", map[string]string{"name": args[0]})
	})
}

func tokenRevokeCommand(open opener) *cobra.Command {
	return asks(&cobra.Command{
		Use:   "revoke NAME",
		Short: "Take a token back; its connections end at once",
		Args:  nameOf("revoke"),
	}, open, "text", func(ctx context.Context, a *answer, args []string) error {
		return a.send(ctx, message.KindCommand, "Token.Revoke", map[string]string{"name": args[0]}, func(s *terminal.Screen, _ json.RawMessage) error {
			s.Note("the token %s is not accepted any more", args[0])
			return nil
		})
	})
}

func tokenListCommand(open opener) *cobra.Command {
	return asks(&cobra.Command{
		Use:     "list",
		Short:   "List the tokens, and what they may do",
		Long:    "List the tokens, and what they may do. --json prints what Token.List replies.",
		Example: "  kernos token list\n  kernos token list --jq '.tokens[] | select(.expired) | .name'",
		Args:    noArguments,
	}, open, "table", func(ctx context.Context, a *answer, _ []string) error {
		return a.send(ctx, message.KindQuery, "Token.List", struct{}{}, func(s *terminal.Screen, data json.RawMessage) error {
			var reply struct{ Tokens []token.Info }
			if err := request.Decode("Token.List", data, &reply); err != nil {
				return err
			}
			rows := make([][]string, len(reply.Tokens))
			for i := range reply.Tokens {
				t := &reply.Tokens[i]
				rows[i] = []string{t.Name, cmp.Or(string(t.Preset), "-"), day(t.Created), expiry(t), strings.Join(rules(t), " ")}
			}
			return s.Table([]string{"NAME", "PRESET", "CREATED", "EXPIRES", "RULES"}, rows)
		})
	})
}

func tokenShowCommand(open opener) *cobra.Command {
	return asks(&cobra.Command{
		Use:   "show NAME",
		Short: "Show what a token may do",
		Long:  "Show what a token may do. --json prints what Token.Show replies.",
		Args:  nameOf("show"),
	}, open, "text", func(ctx context.Context, a *answer, args []string) error {
		return a.send(ctx, message.KindQuery, "Token.Show", map[string]string{"name": args[0]}, showToken)
	})
}

// showToken writes a token and its rules, one per line.
func showToken(s *terminal.Screen, data json.RawMessage) error {
	t := new(token.Info)
	if err := request.Decode("Token.Show", data, t); err != nil {
		return err
	}
	rows := [][]string{{"name", t.Name}, {"id", string(t.ID)}, {"preset", cmp.Or(string(t.Preset), "-")}, {"created", day(t.Created)}, {"expires", expiry(t)}}
	if t.Rotated != 0 {
		rows = append(rows, []string{"rotated", day(t.Rotated)})
	}
	for _, r := range rules(t) {
		rows = append(rows, []string{"rule", r})
	}
	return s.Table(nil, rows)
}

// rules are the rules of a token as the flags that make them.
func rules(t *token.Info) (texts []string) {
	for flag, values := range map[string][]string{"--allow": t.Allow, "--deny": t.Deny, "--memory": t.Memory, "--files": t.Files} {
		if len(values) > 0 {
			texts = append(texts, flag+" "+strings.Join(values, ","))
		}
	}
	slices.Sort(texts)
	if t.ReadOnly {
		texts = append(texts, "--read-only")
	}
	if t.Rate > 0 {
		texts = append(texts, fmt.Sprintf("--rate %g", t.Rate))
	}
	return texts
}

func expiry(t *token.Info) string {
	switch {
	case t.Expired:
		return "expired"
	case t.Expires == 0:
		return "never"
	}
	return day(t.Expires)
}

// day is a time as a person reads it; "-" if it is not known.
func day(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04")
}
