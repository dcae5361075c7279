package http

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestATokenIsMadeOnce(t *testing.T) {
	const openers = 8
	path := filepath.Join(t.TempDir(), "home", "token")
	tokens := make(chan string, openers)
	for range openers {
		go func() {
			k, err := OpenToken(path)
			if err != nil {
				tokens <- err.Error()
				return
			}
			v, err := k.Value()
			if err != nil {
				v = err.Error()
			}
			tokens <- v
		}()
	}
	first := <-tokens
	if len(first) != 43 { // 32 bytes
		t.Errorf("it is %q", first)
	}
	for range openers - 1 {
		if other := <-tokens; other != first {
			t.Errorf("another file has %q", other)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestATokenThatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		k, err := OpenToken(path)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := k.Value()
		if err := ReplaceToken(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookAgain)
		second, err := k.Value()
		if err != nil || second == first || len(second) != len(first) {
			t.Errorf("%q became %q, %v", first, second, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookAgain)
		if v, err := k.Value(); err == nil {
			t.Errorf("without a file it is %q", v)
		}
		if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookAgain)
		if v, err := k.Value(); err != nil || v != secret {
			t.Errorf("%q, %v", v, err)
		}
	})
}

func TestTokensThatWontDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{secret, 0o644, "others may read the token"},
		{secret, 0o640, "chmod 600 " + path},
		{"short", 0o600, "at least 20 characters, and this one has 5"},
		{"", 0o600, "at least 20 characters"},
		{secret + "\n" + secret, 0o600, "on one line"},
		{secret + "ä", 0o600, `this one has 'ä'`},
		{strings.Repeat("x", 5000), 0o600, "a file with a token"},
	} {
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenToken(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	if _, err := OpenToken(t.TempDir()); err == nil || !strings.Contains(err.Error(), "a file with a token") {
		t.Errorf("a directory: %v", err)
	}
}
