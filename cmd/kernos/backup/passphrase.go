package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"kernos/cmd/kernos/terminal"
)

// minPassphrase is how many bytes a passphrase must have: the backup may get into other hands.
const minPassphrase = 8

// ReadPassphrase reads a passphrase from a file, or asks for it in the terminal, twice for a new one.
func ReadPassphrase(ctx context.Context, file string, fresh bool, people io.Writer) (passphrase []byte, err error) {
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
