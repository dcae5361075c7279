package crypto

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"kernos/internal/durable"
	"kernos/internal/sealed"
	"kernos/message"
)

const localWarning = "No ssh-agent is running, so the key is in a file on this machine: any program that can read the file can open what is sealed, and if the file is lost nothing can. For more security, run an ssh-agent with an Ed25519 key."

// errNoFile means that there is no local key yet. Only a command may make one.
var errNoFile = message.Errorf(404, "No ssh-agent is running, and there is no local key yet: Crypto.Seal makes one when it is first used")

// A key file is three lines of text: what it is, the name of the key, and its bytes. The
// kid is the hash of the name, which has nothing to do with the bytes.
const fileHead = "kernos-key:v1"

const (
	idSize      = 16
	maxFileSize = 256
)

var fileEncoding = base64.RawURLEncoding.Strict()

// load reads the local key, if it is the one that is wanted; the zero kid wants any.
func (k *Keyring) load(want sealed.Kid) (*key, error) {
	switch {
	case k.opts.RequireAgent:
		return nil, message.Errorf(403, "It needs the local key file, and this kernel uses ssh-agent only (--require-agent)")
	case k.opts.KeyFile == "":
		return nil, message.Errorf(404, "This kernel has no place for a local key file: %w", errNoAgent)
	}
	kid, secret, err := readKeyFile(k.opts.KeyFile)
	if err != nil {
		if errors.Is(err, errNoFile) && want != (sealed.Kid{}) {
			return nil, message.Errorf(404, "The key %s is not here: there is no key file %s; bring it back from where the string was sealed", want, k.opts.KeyFile)
		}
		return nil, err
	}
	if want != (sealed.Kid{}) && kid != want {
		clear(secret)
		return nil, message.Errorf(404, "The key %s is not here: the key file %s has another one, %s", want, k.opts.KeyFile, kid)
	}
	cipher, err := newCipher(secret)
	if err != nil {
		return nil, err
	}
	k.local.Do(func() { k.opts.Log.Warn(localWarning, "file", k.opts.KeyFile, "kid", kid.String()) })
	return &key{kid: kid, forms: 1, cipher: cipher}, nil
}

// readKeyFile reads a key file, unless other users could have read or written it.
func readKeyFile(path string) (kid sealed.Kid, secret []byte, err error) {
	unusable := func(format string, args ...any) error {
		return message.Errorf(500, "The key file %s can't be used: %s", path, fmt.Sprintf(format, args...))
	}
	// Without O_NONBLOCK, opening a pipe waits for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return kid, nil, errNoFile
	case errors.Is(err, syscall.ELOOP):
		return kid, nil, unusable("it is a symbolic link")
	case err != nil:
		return kid, nil, unusable("%v", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return kid, nil, unusable("%v", err)
	case !info.Mode().IsRegular():
		return kid, nil, unusable("it is not a regular file")
	case info.Mode().Perm()&0o077 != 0:
		return kid, nil, unusable("other users may read or write it (mode %04o); if none has, chmod 600 it", info.Mode().Perm())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return kid, nil, unusable("it belongs to another user")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	defer clear(text)
	if err != nil {
		return kid, nil, unusable("%v", err)
	}
	kid, secret, ok := parseKeyFile(text)
	if !ok {
		return kid, nil, unusable("it does not hold a key; bring back the one that it held, or move it away, and what was sealed with it can no longer be opened")
	}
	return kid, secret, nil
}

func parseKeyFile(text []byte) (kid sealed.Kid, secret []byte, ok bool) {
	lines := bytes.Split(text, []byte("\n"))
	if len(text) > maxFileSize || len(lines) != 4 || string(lines[0]) != fileHead || len(lines[3]) != 0 {
		return kid, nil, false
	}
	id, idOK := field(lines[1], "id ", idSize)
	secret, ok = field(lines[2], "key ", sealed.KeySize)
	return sealed.Kid{Source: sealed.Local, Digest: sha256.Sum256(id)}, secret, ok && idOK
}

func field(line []byte, name string, size int) ([]byte, bool) {
	text, ok := bytes.CutPrefix(line, []byte(name))
	if !ok || bytes.IndexByte(text, '\r') >= 0 { // the decoder would skip a carriage return
		return nil, false
	}
	data, err := fileEncoding.AppendDecode(nil, text)
	return data, err == nil && len(data) == size
}

// makeKeyFile makes a key file. An existing one stays: the new file gets its name when it is
// complete, and only if the name is free.
func makeKeyFile(path string) (err error) {
	defer func() {
		if err != nil {
			err = message.Errorf(500, "The key file %s can't be made: %v", path, err)
		}
	}()
	dir := filepath.Dir(path)
	if err := durable.MakeDir(dir); err != nil {
		return err
	}
	text := newKey()
	defer clear(text)
	whole, err := durable.Temporary(dir, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = durable.Remove(whole) }()
	if err := os.Link(whole, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDir(dir)
}

func newKey() []byte {
	random := make([]byte, idSize+sealed.KeySize)
	defer clear(random)
	_, _ = rand.Read(random) // rand.Read never returns an error: it ends the process instead
	text := append(make([]byte, 0, maxFileSize), fileHead+"\nid "...)
	text = append(fileEncoding.AppendEncode(text, random[:idSize]), "\nkey "...)
	return append(fileEncoding.AppendEncode(text, random[idSize:]), '\n')
}

// FileKey returns the name of the key in a key file; "" if no key there can be used.
func FileKey(path string) string {
	kid, secret, err := readKeyFile(path)
	if err != nil {
		return ""
	}
	clear(secret)
	return kid.String()
}
