package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/message"
)

// vault is where sealed values are in the memory.
const vault = "vault/"

func secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Seal secrets, and keep them in the vault",
		Long: `Keep secrets sealed under vault/ in the memory. A secret is sealed for hosts or syscalls, and
is opened for no other use: what is stored can be read by anyone who reads the memory, and
used only by a call to them.`,
		Example: `  kernos secret set deploys --for deploys.example.com
  kernos secret set deploys --for deploys.example.com < key.txt
  kernos http fetch https://deploys.example.com headers.authorization="Bearer $(kernos memory get vault/deploys -r)"
  kernos secret list
  kernos secret remove deploys`,
		Args: ownCommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(secretSetCommand(),
		views(&cobra.Command{
			Use: "list", Short: "List the keys of the secrets", Args: noArguments,
		}, started, func(ctx context.Context, v *line.View) error {
			return v.Send(ctx, "Memory.List", map[string]string{"prefix": vault}, nil)
		}, "table"),
		views(&cobra.Command{
			Use: "remove NAME", Short: "Remove a secret", Args: oneListed("secret"),
		}, started, func(ctx context.Context, v *line.View) error {
			return v.Send(ctx, "Memory.Delete", map[string]string{"key": vaultKey(v.Args[0])}, nil)
		}, "text"))
	return c
}

// vaultKey returns the key of a secret, which may be named with or without the folder.
func vaultKey(name string) string { return vault + strings.TrimPrefix(name, vault) }

func secretSetCommand() *cobra.Command {
	var uses []string
	c := &cobra.Command{
		Use:   "set NAME --for HOST",
		Short: "Seal a secret, and set it",
		Long: `Seal a secret, and set it as vault/NAME. It is asked for, and what is typed isn't shown; or it
is read from standard input, without the last line break.`,
		Example: `  kernos secret set deploys --for deploys.example.com
  kernos secret set local --for localhost:8080 < key.txt`,
		Args: func(c *cobra.Command, args []string) error {
			if len(uses) == 0 {
				return missing{errors.New("name what the secret is for: --for HOST, such as api.example.com, *.example.com or localhost:8080, or a syscall")}
			}
			return one("name the secret: kernos secret set NAME --for HOST")(c, args)
		},
	}
	c.Flags().StringArrayVar(&uses, "for", nil, "a `HOST` that the secret goes to, or a syscall that opens it; can be repeated")
	return views(c, started, func(ctx context.Context, v *line.View) error {
		plaintext, err := "[redacted]", error(nil)
		if !v.Shows() {
			plaintext, err = terminal.AskSecret(ctx, c.InOrStdin(), v.Screen.Err, "the secret (what you type is not shown): ")
		}
		if err != nil {
			return err
		}
		var sealed string
		if err := server.Read(ctx, v.Call, message.KindCommand, "Crypto.Seal", map[string]any{"plaintext": plaintext, "for": uses}, &sealed); err != nil {
			return err
		}
		return v.Send(ctx, "Memory.Set", map[string]string{"key": vaultKey(v.Args[0]), "value": sealed}, nil)
	}, "text")
}
