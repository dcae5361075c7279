package attack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/transport/unix"
)

// TestPlacesThatOthersWrite: where other users could put something else in the place of the home, of the folders of
// its origins or of the socket's directory, nothing is opened, and the error names the directory. A sticky directory
// keeps what is in it.
func TestPlacesThatOthersWrite(t *testing.T) {
	const sticky = os.ModeSticky | 0o777
	dir := testkit.ShortDir(t)
	mode := func(path string, mode os.FileMode) string {
		t.Helper()
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open, shared := mode(filepath.Join(dir, "open"), 0o777), mode(filepath.Join(dir, "shared"), sticky)
	group := mode(filepath.Join(dir, "group"), 0o770)
	for _, path := range []string{open, shared, group, dir} {
		mode(filepath.Join(path, "inner"), 0o700)
	}
	mode(filepath.Join(dir, "written", "origins"), 0o777)
	origin, err := daemon.FindHome(filepath.Join(dir, "origin"), "")
	if err != nil {
		t.Fatal(err)
	}
	mode(origin.State(), 0o777)
	for link, to := range map[string]string{"link": open + "/inner", "good": dir + "/inner", "open/back": dir + "/inner"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for home, named := range map[string]string{
		"inner": "", "inner/new": "", "shared/inner": "", "shared/new/er": "", "good/home": "", "shared/inner/a/b": "",
		"open/inner": open, "open/inner/deep/er": open, "open/new": open, "group/inner": group, "link": open, "link/home": open, "open/back": open,
		"open": open, "written": dir + "/written/origins", "origin": origin.State(),
	} {
		h, err := daemon.FindHome(filepath.Join(dir, home), "")
		if err != nil {
			t.Fatal(err)
		}
		err = h.Check()
		if (err == nil) != (named == "") || err != nil && !(strings.Contains(err.Error(), named) && strings.Contains(err.Error(), "may be written by other users") && strings.Contains(err.Error(), "chmod go-w")) {
			t.Errorf("the home %s: %v", home, err)
		}
		if _, made := os.Lstat(filepath.Join(open, "new")); made == nil {
			t.Errorf("%s was made", open)
		}
	}
	for runtime, named := range map[string]string{"inner": "", "shared": "", "shared/inner": "", "open": open, "open/inner": open, "group": group, "link": open} {
		t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, runtime))
		path, err := unix.Path("/home", "local")
		if (err == nil) != (named == "") || err != nil && !(strings.Contains(err.Error(), named) && strings.Contains(err.Error(), "chmod go-w") && strings.Contains(err.Error(), "set XDG_RUNTIME_DIR")) {
			t.Errorf("the runtime directory %s: %s, %v", runtime, path, err)
		}
	}
}
