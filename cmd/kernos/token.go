package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	httpd "kernos/transport/http"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/settings"
)

func tokenCommand() *cobra.Command {
	var file string
	var renew bool
	c := &cobra.Command{
		Use:   "token",
		Short: "Print the token that callers over HTTP must know",
		Long: `Print the token that everybody must send who calls the daemon over its TCP address, by
HTTP or by a WebSocket. It is in the file token in the home directory, which only its
owner may read, and is made when it is first needed. Callers over the sockets of the
daemon need none.

--new replaces it: a daemon that runs wants the new one a second later, and connections
that are open stay.`,
		Example: `  curl -H "Authorization: Bearer $(kernos token)" http://127.0.0.1:7420/v1/call/kernel/status -d '{}'
  kernos token --new`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := settings.Complete(c); err != nil {
				return err
			}
			home, err := settings.UsableHome()
			if err != nil {
				return err
			}
			path := cmp.Or(file, home.Token())
			if renew {
				if err := httpd.ReplaceToken(path); err != nil {
					return exit.Wrap(err)
				}
			}
			t, err := httpd.OpenToken(path)
			if err != nil {
				return exit.Wrap(err)
			}
			token, err := t.Value()
			if err != nil {
				return exit.Wrap(err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return exit.Wrap(err)
		},
	}
	settings.AddTokenFile(c, &file)
	c.Flags().BoolVar(&renew, "new", false, "replace the token")
	return c
}
