package http

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kernos/internal/durable"
)

// A Token is the secret in a file. Replacing the file changes the secret, also of a
// server that runs.
type Token struct {
	path string
	file watched[string]
}

const (
	tokenBytes = 32 // random ones
	minToken   = 20 // characters of a token that was not made here
	maxToken   = 4096
)

// OpenToken reads the token in a file, and makes one if there is no file. It is for its
// owner only: a file that others may read is refused.
func OpenToken(path string) (*Token, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := makeToken(path); err != nil {
		return nil, fmt.Errorf("the token can't be made: %w", err)
	}
	t := &Token{path: path, file: watched[string]{read: func() (string, error) { return readToken(path) }}}
	if _, err := t.Value(); err != nil {
		return nil, err
	}
	return t, nil
}

// Value returns the token.
func (t *Token) Value() (string, error) { return t.file.value() }

// Replace puts a new token into the file.
func (t *Token) Replace() error {
	if err := ReplaceToken(t.path); err != nil {
		return err
	}
	t.file.forget()
	return nil
}

// ReplaceToken puts a new token into a file.
func ReplaceToken(path string) error {
	err := durable.MakeDir(filepath.Dir(path))
	if err == nil {
		err = durable.WriteFile(path, newToken())
	}
	if err != nil {
		return fmt.Errorf("the token can't be replaced: %w", err)
	}
	return nil
}

func newToken() []byte {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails
	return append(base64.RawURLEncoding.AppendEncode(nil, secret), '\n')
}

// makeToken makes a file with a token appear complete, unless there is one.
func makeToken(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	name, err := durable.Temporary(filepath.Dir(path), func(f io.Writer) error {
		_, err := f.Write(newToken())
		return err
	})
	if err != nil {
		return err
	}
	// Unlike a rename, a link fails if another process was faster.
	if err = os.Link(name, path); errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, durable.Remove(name))
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("the token can't be read: %w", err)
	}
	switch {
	case !info.Mode().IsRegular() || info.Size() > maxToken:
		return "", fmt.Errorf("%s isn't a file with a token; remove it, and a new one is made", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("others may read the token in %s; take that away with chmod 600 %s, and replace it with kernos token --new", path, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the token can't be read: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// checkToken reports what is wrong with a token: it must be fit for a header and for the
// protocol of a WebSocket, and not be guessed.
func checkToken(token string) error {
	const signs = "-._~!#$%&'*+^`|"
	for _, c := range token {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(signs, c) {
			return fmt.Errorf("a token has letters, digits and signs of %s only, on one line, and this one has %q; remove the file, and a new one is made", signs, c)
		}
	}
	if len(token) < minToken {
		return fmt.Errorf("a token has at least %d characters, and this one has %d; remove the file, and a new one is made", minToken, len(token))
	}
	return nil
}
