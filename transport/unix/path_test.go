package unix

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// places points the environment to directories of a test.
func places(t *testing.T, runtime, temporary string) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	t.Setenv("TMPDIR", temporary)
}

// shortDir returns a directory with a short path: sockets need one.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func mustPath(t *testing.T, home, origin string) string {
	t.Helper()
	path, err := Path(home, origin)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPathIsThatOfAHomeAndAnOrigin(t *testing.T) {
	dir := shortDir(t)
	places(t, dir, "")
	path := mustPath(t, "/a", "https://one.local/")
	if !regexp.MustCompile(`^` + regexp.QuoteMeta(dir) + `/kernos/[0-9a-f]{16}\.sock$`).MatchString(path) {
		t.Errorf("got %s", path)
	}
	if again := mustPath(t, "/a/", "https://one.local/"); again != path {
		t.Errorf("got %s, and then %s", path, again)
	}
	for _, other := range []string{mustPath(t, "/b", "https://one.local/"), mustPath(t, "/a", "https://two.local/"), mustPath(t, "/", "ahttps://one.local/")} {
		if other == path {
			t.Errorf("two daemons share %s", path)
		}
	}
	stat, err := os.Stat(filepath.Dir(path))
	if err != nil || stat.Mode() != os.ModeDir|0o700 {
		t.Errorf("its directory has mode %v, %v", stat.Mode(), err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestPathIsInTheFirstPlaceThatWillDo(t *testing.T) {
	first, second := shortDir(t), shortDir(t)
	file := filepath.Join(first, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(first, strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bases []string
		want  string
	}{
		{[]string{first, second}, first},
		{[]string{"", second}, second},
		{[]string{"relative", second}, second},
		{[]string{first + "/missing", second}, second},
		{[]string{file, second}, second},
		{[]string{long, second}, second},
	} {
		path, err := place("0123456789abcdef.sock", c.bases...)
		if err != nil || !strings.HasPrefix(path, c.want+"/kernos/") {
			t.Errorf("%q: got %s, %v", c.bases, path, err)
		}
	}
	if _, err := place("x.sock", long, file); err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("no place at all: %v", err)
	}
}

// In a directory where others may make directories, two users must not want the same one.
func TestPathInASharedPlaceNamesItsOwner(t *testing.T) {
	shared := shortDir(t)
	if err := os.Chmod(shared, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	places(t, "", shared)
	if path := mustPath(t, "/a", "o"); !regexp.MustCompile(`/kernos-[0-9]+/[0-9a-f]{16}\.sock$`).MatchString(path) {
		t.Errorf("got %s", path)
	}
}

func TestPathRepairsTheModeOfItsDirectory(t *testing.T) {
	base := shortDir(t)
	places(t, base, "")
	dir := filepath.Join(base, "kernos")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mustPath(t, "/a", "o")
	if stat, err := os.Stat(dir); err != nil || stat.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", stat.Mode(), err)
	}
}

func TestPathRefusesWhatOthersCouldHaveAHandIn(t *testing.T) {
	foreign := "/" // which is root's
	if os.Geteuid() == 0 {
		foreign = filepath.Join(shortDir(t), "foreign")
		if err := errors.Join(os.Mkdir(foreign, 0o700), os.Chown(foreign, 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := makePrivate(foreign); !isUnsafe(err, "belongs to the user with the number") {
		t.Errorf("a directory of another user: got %v", err)
	}
	base := shortDir(t)
	places(t, base, "")
	dir := filepath.Join(base, "kernos")
	if err := os.Symlink(shortDir(t), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Path("/a", "o"); !isUnsafe(err, "is not a directory, but a link or a file") {
		t.Errorf("a link: got %v", err)
	}
	if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Path("/a", "o"); !isUnsafe(err, "is not a directory, but a link or a file") {
		t.Errorf("a file: got %v", err)
	}
}

func isUnsafe(err error, reason string) bool {
	return err != nil && strings.Contains(err.Error(), "not safe for a socket: it "+reason) && strings.Contains(err.Error(), "remove it, or set XDG_RUNTIME_DIR")
}
