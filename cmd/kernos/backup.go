package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/backup"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/settings"
)

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all state into one file, also while a kernel is running",
		Long: `Write the state of the origin (memory, journal, outcomes of idempotent commands, and
the blobs that they refer to) into one file, as it is at one moment. A kernel that is
running goes on; what it has acknowledged before the backup began is in it.

The key file (key, beside the state), with which secrets are sealed where there is no
ssh-agent, is not in it: keep a copy of it elsewhere.

The file is compressed, has a checksum, and is readable by its owner only. It replaces
a file of the same name when it is complete. - writes to standard output.`,
		Example: "  kernos backup kernos.backup\n  kernos backup - | ssh elsewhere 'cat > kernos.backup'",
		Args:    one("say which file: kernos backup FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				home, err := settings.UsableHome()
				if err != nil {
					return err
				}
				return exit.Wrap(backup.Write(ctx, home, version, args[0], c.OutOrStdout(), c.ErrOrStderr()))
			})
		},
	}
}

func restoreCommand() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring back the state that a backup holds",
		Long: `Read a file that kernos backup has written and make it the state of the origin that it
was made of. The file is read to its end and checked before anything is changed.

State that is there is not touched, unless --replace is given: then it is moved aside,
and the command says where to. A daemon that serves it is ended first, as kernos stop
does, and started again in the background with the settings that it had; if something
fails meanwhile, with the state that it had.`,
		Example: "  kernos restore kernos.backup\n  kernos restore --replace kernos.backup",
		Args:    one("say which file: kernos restore FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				home, err := settings.UsableHome()
				if err != nil {
					return err
				}
				return settings.Explain(backup.Restore(ctx, home, os.Getenv("KERNOS_ORIGIN") == "", args[0], replace, c.InOrStdin(), c.ErrOrStderr()))
			})
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "move state that is there aside")
	return c
}
