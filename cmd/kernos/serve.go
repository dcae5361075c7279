package main

import (
	"github.com/spf13/cobra"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
)

func serveCommand() *cobra.Command {
	var s *settings.Serve
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve this machine's programs over a socket, until stopped",
		Long: `Serve the programs of this user over a unix socket: messages in and answers out, one
JSON object per line, over any number of connections. kernos pipe and all other commands
find the socket by themselves, and kernos pipe starts this command in the background if
it is not running. In the foreground it prints what it serves.

One process serves an origin of a home directory; a second one reports which process
does, and exits with status 1. All messages are recorded, for kernos log, graph, search
and replay. The log of the daemon is log/kernos.log beside the state: JSON, one object
per line.

HTTP and WebSockets are served at 127.0.0.1:7420 (--addr) too, for callers that send the
token that kernos token prints, and on the same socket, where no token is needed. An
address that other machines can reach is served with TLS and a token only, unless an
--insecure flag allows less. Web pages are let in from the server's own origin and those
of --allow-origin. If another program uses the default address, only the socket is
served.

With --auth-key, clients must sign with one of the keys, as kernos pipe, kernos call and
all other commands do with ssh-agent. A token is not a signature, so no TCP address is
served then, unless --insecure-listen-without-signature allows it.

kernos stop, Syscall.Shutdown, an interrupt or SIGTERM end it: it accepts nothing new,
finishes running calls for up to --grace, and exits with status 0. Another signal ends it
at once.

Each setting can be given by a flag, by a variable (--line-time is KERNOS_LINE_TIME), or
in config.yaml in the home directory (line-time: 30s), in this order.`,
		Example: `  kernos serve
  kernos serve --auth-key ~/.ssh/authorized_keys
  kernos serve --addr 0.0.0.0:7420 --allow-host agent.example.com --tls-cert cert.pem --tls-key key.pem
  kernos serve --max-connections 100 --idle 1h --frame-rate 1000
  KERNOS_JOURNAL_AGE=30d kernos serve`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.Complete(c, version); err != nil {
				return err
			}
			return server.Serve(c.Context(), s, c.ErrOrStderr())
		},
	}
	s = settings.AddServeFlags(c)
	c.SetUsageFunc(func(c *cobra.Command) error { return settings.Usage(c, settings.ServeGroups, "Other") })
	return c
}
