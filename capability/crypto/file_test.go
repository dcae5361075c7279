package crypto

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"kernos/internal/sealed"
	"kernos/internal/testkit"
)

func TestTheLocalKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "home", "keys", "local")
	w := newWorld(t, Options{KeyFile: file})
	// A query makes nothing.
	w.refuse("Derive", object{}, 500, "no local key yet", "Crypto.Seal makes one")
	if _, err := os.Stat(filepath.Dir(file)); err == nil {
		t.Fatal("a query has made a folder")
	}
	text := w.seal("hunter2")
	kid := kidIn(t, text)
	if !strings.HasPrefix(kid, "kernos-local:SHA256:") {
		t.Errorf("the kid is %s", kid)
	}
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) != 1 {
		t.Errorf("there are %v, %v", files, err)
	}
	// It is said once.
	w.seal("x")
	if got := strings.Count(w.log.String(), "level=WARN"); got != 1 || !strings.Contains(w.log.String(), "No ssh-agent is running") {
		t.Errorf("the log has %d warnings: %s", got, w.log)
	}
	want := deriveOutput{Kid: kid, Alg: "A256GCM", Source: "file", Warning: localWarning}
	if got := reply[deriveOutput](w, "Derive", object{}); got != want {
		t.Errorf("derived %+v, want %+v", got, want)
	}
	// Another process finds it, also one that has an agent.
	for _, opts := range []Options{{KeyFile: file}, {KeyFile: file, Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, seedKey(1))))}} {
		again := newWorld(t, opts)
		if got := again.open(text); got != "hunter2" {
			t.Errorf("opens as %q", got)
		}
	}
	// One that must not use it does not.
	strict := newWorld(t, Options{KeyFile: file, RequireAgent: true})
	strict.refuse("Open", object{"ciphertext": text}, 500, "Decryption failed", "--require-agent")
	strict.refuse("Seal", object{"plaintext": "x"}, 500, "Encryption failed", "No ssh-agent is running")
	strict.refuse("Seal", object{"plaintext": "x", "key": kid}, 500, "Encryption failed", "--require-agent")
	// The kid says nothing of the bytes, and neither does anything else.
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimPrefix(strings.Split(string(content), "\n")[2], "key ")
	if bytes, err := base64.RawURLEncoding.DecodeString(line); err != nil || len(bytes) != sealed.KeySize {
		t.Errorf("the key is %q, %v", line, err)
	}
	if strings.Contains(w.log.String(), line) {
		t.Error("the log has the key")
	}
	// Without the file, or with another one.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	newWorld(t, Options{KeyFile: file}).refuse("Open", object{"ciphertext": text}, 500, "there is no key file", kid)
	other := newWorld(t, Options{KeyFile: file})
	if got := kidIn(t, other.seal("x")); got == kid {
		t.Error("the new key has the old name")
	}
	other.refuse("Open", object{"ciphertext": text}, 500, "has another one", kid)
	newWorld(t, Options{}).refuse("Seal", object{"plaintext": "x"}, 500, "no place for a local key file")
}

func TestAKeyFileThatCanNotBeTrusted(t *testing.T) {
	good := func(t *testing.T, path string) {
		if err := os.WriteFile(path, newKey(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, words string
		spoil       func(t *testing.T, path string)
	}{
		{"others may read", "chmod 600", func(t *testing.T, path string) { good(t, path); check(t, os.Chmod(path, 0o640)) }},
		{"others may write", "chmod 600", func(t *testing.T, path string) { good(t, path); check(t, os.Chmod(path, 0o602)) }},
		{"a link", "symbolic link", func(t *testing.T, path string) { good(t, path+"2"); check(t, os.Symlink(path+"2", path)) }},
		{"a folder", "it is not a regular file", func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) }},
		{"a pipe", "it is not a regular file", func(t *testing.T, path string) { check(t, unix.Mkfifo(path, 0o600)) }},
		{"empty", "does not hold a key", func(t *testing.T, path string) { check(t, os.WriteFile(path, nil, 0o600)) }},
		{"cut", "does not hold a key", func(t *testing.T, path string) { check(t, os.WriteFile(path, newKey()[:60], 0o600)) }},
		{"long", "does not hold a key", func(t *testing.T, path string) {
			check(t, os.WriteFile(path, bytes.Repeat(newKey(), 1000), 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			c.spoil(t, path)
			w := newWorld(t, Options{KeyFile: path})
			w.refuse("Seal", object{"plaintext": "hunter2"}, 500, "Encryption failed", path, c.words)
			w.refuse("Derive", object{}, 500, "Key derivation failed", path, c.words)
			if strings.Contains(w.log.String(), "WARN") {
				t.Errorf("it was used: %s", w.log)
			}
		})
	}
	t.Run("a folder that can't be made", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		good(t, file)
		w := newWorld(t, Options{KeyFile: filepath.Join(file, "key")})
		w.refuse("Seal", object{"plaintext": "hunter2"}, 500, "Encryption failed", "not a directory")
	})
}

// Many processes that make the key at once have the same one.
func TestTheKeyIsMadeOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys", "local")
	const processes = 16
	texts := make([]string, processes)
	var sealing sync.WaitGroup
	for i := range processes {
		w := newWorld(t, Options{KeyFile: file})
		sealing.Go(func() { texts[i] = w.seal("hunter2") })
	}
	sealing.Wait()
	w := newWorld(t, Options{KeyFile: file})
	for _, text := range texts {
		if got := w.open(text); got != "hunter2" {
			t.Errorf("opens as %q", got)
		}
	}
	var left []string
	_ = filepath.WalkDir(filepath.Dir(file), func(path string, d fs.DirEntry, _ error) error {
		if !d.IsDir() {
			left = append(left, path)
		}
		return nil
	})
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func FuzzKeyFile(f *testing.F) {
	f.Add(newKey())
	f.Add([]byte("kernos-key:v1\nid \nkey \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		kid, secret, ok := parseKeyFile(text)
		if !ok {
			return
		}
		if len(secret) != sealed.KeySize || kid.Source != sealed.Local || len(text) != len(newKey()) {
			t.Fatalf("%q holds %v and %d bytes", text, kid, len(secret))
		}
	})
}
