package main

import (
	"github.com/spf13/cobra"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

func configCommand() *cobra.Command {
	return prints(&cobra.Command{
		Use:   "config",
		Short: "Show the settings of the daemon, and where each comes from",
		Long: `Show the settings that the daemon has, or that it will have when a command starts it: each with
its value, and whether that comes from a flag, a variable of the environment, the last kernos
serve, config.yaml, or is the default. Credentials in the values aren't shown.`,
		Example: `  kernos config
  kernos config --jq '.settings[] | select(.from != "default")'`,
		Args: noArguments,
	}, "table", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		home, err := settings.Home()
		if err != nil {
			return err
		}
		d, err := server.DaemonOf(home)
		if err != nil {
			return err
		}
		info, running := d.Inspect()
		if !running {
			settings.WarnOfSettings(c.ErrOrStderr())
		}
		all, err := settings.Effective(home, info)
		if err != nil {
			return err
		}
		return writeValue(c.Context(), s, o, map[string]any{"running": running, "settings": all}, func() error {
			rows := make([][]string, len(all))
			for i, one := range all {
				rows[i] = []string{one.Name, one.Value, one.From}
			}
			return exit.Wrap(s.Table([]string{"SETTING", "VALUE", "FROM"}, rows))
		})
	})
}
