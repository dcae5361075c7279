package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kernos/cmd/kernos/backup"
	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/store/archive"
)

func backupCommand(k *kernels) *cobra.Command {
	var withKey bool
	var file string
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all state into one file, also while a kernel is running",
		Long: `Write the state of the origin (memory, journal, tokens, jobs, outcomes of idempotent
commands, and the blobs that they refer to) into one file, as it is at one moment. A kernel
that is running goes on; what it has acknowledged before the backup began is in it.

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
		Args:    one("say which file: kernos backup FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				server, err := connect.FindServer(k.context, "")
				if err != nil {
					return err
				}
				withKey = withKey || file != ""
				if server.Daemon == nil && withKey {
					return &exit.Error{Status: exit.Usage, Cause: fmt.Errorf("the server of context %s never sends its sealing key; run kernos backup --with-key on its machine, or leave out --with-key", server.Context)}
				}
				var key *archive.Key
				if server.Daemon != nil {
					home, err := settings.UsableHome()
					if err != nil {
						return err
					}
					if withKey {
						if key, err = backup.SealKey(home, func() ([]byte, error) { return readPassphrase(ctx, file, true, c.ErrOrStderr()) }); err != nil {
							return exit.Wrap(err)
						}
					}
				}
				opened, err := connect.Open(ctx, connect.Options{Context: k.context, InProcess: openInProcess, Alone: true})
				if err != nil {
					return err
				}
				made, err := backup.Write(ctx, opened.Call, args[0], key, c.OutOrStdout(), c.ErrOrStderr())
				if made.KeyFile != "" {
					where := "keep a copy of " + made.KeyFile + ", or put it in with --with-key"
					if server.Daemon == nil {
						where = "keep a copy of " + made.KeyFile + " of the server, or run kernos backup --with-key there"
					}
					fmt.Fprintln(c.ErrOrStderr(), "the sealing key isn't in the backup; "+visible.Text(where))
				}
				return exit.Wrap(errors.Join(err, opened.Close()))
			})
		},
	}
	addContextFlag(c, &k.context)
	c.Flags().BoolVar(&withKey, "with-key", false, "put the key file into the backup, sealed with a passphrase")
	addPassphraseFile(c, &file)
	return c
}

// addPassphraseFile adds the flag for programs, which can't be asked.
func addPassphraseFile(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "passphrase-file", "", "the `FILE` with the passphrase of the key; without it, the passphrase is asked for")
}

// minPassphrase is how many bytes a passphrase must have: the backup may get into other hands.
const minPassphrase = 8

// readPassphrase reads a passphrase from a file, or asks for it in the terminal, twice for a new one.
func readPassphrase(ctx context.Context, file string, fresh bool, people io.Writer) (passphrase []byte, err error) {
	switch {
	case file != "":
		if passphrase, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("the passphrase can't be read: %w", err)
		}
		passphrase = bytes.TrimRight(passphrase, "\r\n")
	case !term.IsTerminal(int(os.Stdin.Fd())):
		return nil, errors.New("the passphrase of the sealing key can't be asked for, since the input isn't a terminal; give --passphrase-file FILE")
	default:
		first, err := terminal.Ask(ctx, os.Stdin, people, "Passphrase of the sealing key: ", true)
		if err != nil {
			return nil, err
		}
		if fresh {
			again, err := terminal.Ask(ctx, os.Stdin, people, "The same once more: ", true)
			if err != nil {
				return nil, err
			}
			if first != again {
				return nil, errors.New("the two passphrases differ; nothing was written: try again")
			}
		}
		passphrase = []byte(first)
	}
	if fresh && len(passphrase) < minPassphrase {
		return nil, fmt.Errorf("the passphrase has %d bytes, and must have at least %d; choose a longer one", len(passphrase), minPassphrase)
	}
	return passphrase, nil
}

func restoreCommand() *cobra.Command {
	var replace, withoutKey bool
	var file string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring back the state that a backup holds",
		Long: `Read a file that kernos backup has written and make it the state of the origin that it
was made of. The file is read to its end and checked before anything is changed.

State that is there is not touched, unless --replace is given: then it is moved aside,
and the command says where to. A daemon that serves it is ended first, as kernos stop
does, and started again in the background with the settings that it had; if something
fails meanwhile, with the state that it had.

If the sealing key is in the backup, its passphrase is asked for, and the key becomes the key
file of the state. A key that is there already is moved aside with its state.`,
		Example: "  kernos restore kernos.backup\n  kernos restore --replace kernos.backup",
		Args:    one("say which file: kernos restore FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				home, err := settings.UsableHome()
				if err != nil {
					return err
				}
				restore := backup.Restore{Name: args[0], In: c.InOrStdin(), Home: home, AnyOrigin: os.Getenv("KERNOS_ORIGIN") == "",
					Replace: replace, Report: c.ErrOrStderr()}
				if !withoutKey {
					restore.Key = func() ([]byte, error) { return readPassphrase(c.Context(), file, false, c.ErrOrStderr()) }
				}
				return settings.Explain(restore.Run(ctx))
			})
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "move state that is there aside")
	c.Flags().BoolVar(&withoutKey, "without-key", false, "leave out the sealing key that the backup has")
	addPassphraseFile(c, &file)
	return c
}
