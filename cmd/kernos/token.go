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
		Short: "Print the token that callers over HTTP must send",
		Long: `Print the token that callers must send over the TCP address of the daemon, by HTTP or by
a WebSocket. It is in the file token in the home directory, which only its owner may
read, and is made when it is first needed. Callers over the sockets of the daemon need
none.

--new replaces it: a running daemon requires the new one within a second, and open
connections stay.`,
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
