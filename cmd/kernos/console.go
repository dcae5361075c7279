package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/message"
)

func consoleCommand() *cobra.Command {
	var printed, owner bool
	c := views(&cobra.Command{
		Use:   "console",
		Short: "Open the web console: calls, messages, workflows and memory in a browser",
		Long: `Open the console of the daemon in the browser of this machine: call syscalls with forms,
see messages as they come and what caused them, and look after the memory.

The address lets one browser in, within a minute. The browser makes a key that can't be copied
out of it, and stays signed in with it for 30 days, with the rights of the preset console, until
it signs out or is revoked; kernos token list shows it. With --owner it has the owner's
rights for an hour, and then the rights of the console. Only the owner of a server can make such an
address, on its machine.`,
		Example: "  kernos console\n  kernos console --print\n  kernos console --owner",
		Args:    noArguments,
	}, started, func(ctx context.Context, v *line.View) error {
		data, err := server.Send(ctx, v.Call, message.KindCommand, daemon.ConsoleType, daemon.ConsoleRequest{Owner: owner}, nil)
		if err != nil {
			return err
		}
		return v.Write(ctx, data, shows(v, daemon.ConsoleType, func(link *daemon.ConsoleLink, s *terminal.Screen) error {
			if !printed {
				err := openBrowser(link.URL)
				if err == nil {
					return nil
				}
				s.Note("no browser could be opened (%v); open this address within a minute:", err)
			}
			return s.Line(link.URL)
		}))
	}, "text")
	c.Flags().BoolVar(&owner, "owner", false, "let the browser act for the owner, for an hour")
	c.Flags().BoolVar(&printed, "print", false, "print the address, and open nothing")
	return c
}

// openBrowser opens an address in the browser that the user has chosen.
func openBrowser(url string) error {
	program := "xdg-open"
	switch {
	case os.Getenv("BROWSER") != "":
		program = os.Getenv("BROWSER")
	case runtime.GOOS == "darwin":
		program = "open"
	}
	return exec.Command(program, url).Run()
}
