package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/backup"
	"kernos/cmd/kernos/settings"
	"kernos/internal/exit"
)

func backupCommand() *cobra.Command {
	var withKey bool
	var file string
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all state into one file, also while a kernel is running",
		Long: `Write the state of the origin (memory, journal, tokens, jobs, outcomes of idempotent
commands, and the blobs that they refer to) into one file, as it is at one moment. A kernel
that is running continues; what it has acknowledged before the backup began is in it.

With --context, the state is that of another server, which sends it: its token must allow
Kernel.Backup, which no preset does. The state of this user is read by this command itself,
so that it can be saved even if the daemon hangs.

The key file (key, beside the state), with which secrets are sealed where there is no
ssh-agent, is not in it, unless --with-key is given: then it is sealed with a passphrase,
which is asked for, and kernos restore brings it back. A server never sends its key:
--with-key is for the machine that has the key file.

The file is compressed, has a checksum, and is readable by its owner only. It replaces
a file of the same name when it is complete. - writes to standard output.`,
		Example: "  kernos backup kernos.backup\n  kernos backup --with-key kernos.backup\n  kernos backup --context office office.backup\n  kernos backup - | ssh elsewhere 'cat > kernos.backup'",
		Args:    one("name the file: kernos backup FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				save := backup.Save{Context: contextOf(c), Name: args[0], InProcess: openInProcess, Out: c.OutOrStdout(), Report: c.ErrOrStderr()}
				if withKey || file != "" {
					save.Key = func() ([]byte, error) { return backup.ReadPassphrase(ctx, file, true, c.ErrOrStderr()) }
				}
				return save.Run(ctx)
			})
		},
	}
	addContextFlag(c)
	c.Flags().BoolVar(&withKey, "with-key", false, "put the key file into the backup, sealed with a passphrase")
	addPassphraseFile(c, &file)
	return c
}

// addPassphraseFile adds the flag for programs, which can't be asked.
func addPassphraseFile(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "passphrase-file", "", "the `FILE` with the passphrase of the key; without it, the passphrase is asked for")
}

func restoreCommand() *cobra.Command {
	var replace, withoutKey bool
	var file string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring back the state that a backup holds",
		Long: `Read a file that kernos backup has written and make it the state of the origin that it
was made of. The file is read to its end and checked before anything is changed.

Existing state is not touched, unless --replace is given: it is then moved aside, and the
command prints where to. A daemon that serves this state is stopped first, as kernos stop
does, and started again afterwards in the background with the same settings. If the restore
fails, it is started with the state that it had.

If the sealing key is in the backup, its passphrase is asked for, and the key becomes the key
file of the state. An existing key is moved aside with its state.`,
		Example: "  kernos restore kernos.backup\n  kernos restore --replace kernos.backup",
		Args:    one("name the file: kernos restore FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				home, err := settings.UsableHome()
				if err != nil {
					return err
				}
				restore := backup.Restore{Name: args[0], In: c.InOrStdin(), Home: home, AnyOrigin: os.Getenv("KERNOS_ORIGIN") == "",
					Replace: replace, Report: c.ErrOrStderr()}
				if !withoutKey {
					restore.Key = func() ([]byte, error) { return backup.ReadPassphrase(ctx, file, false, c.ErrOrStderr()) }
				}
				return settings.Explain(restore.Run(ctx))
			})
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "move existing state aside")
	c.Flags().BoolVar(&withoutKey, "without-key", false, "leave out the sealing key that the backup has")
	addPassphraseFile(c, &file)
	return c
}
