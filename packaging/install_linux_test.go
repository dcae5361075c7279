package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
)

// within returns a command that runs in a root folder, with nothing outside of it but the processes and devices of the
// machine. A user who isn't root is root in a name space of their own, where no other user exists.
func within(t *testing.T, root, user string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	enter, chroot := tool.Enter(), []string{"chroot"}
	if os.Geteuid() == 0 {
		chroot = append(chroot, "--userspec="+user)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "proc"), 0o755), os.MkdirAll(filepath.Join(root, "dev"), 0o755)); err != nil {
		t.Fatal(err)
	}
	const mount = `mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec "$@"`
	all := slices.Concat(enter, []string{"sh", "-c", mount, root}, chroot, []string{root}, args)
	c := exec.Command(all[0], all[1:]...)
	c.Env = append(slices.Clone(env), "PATH="+os.Getenv("PATH"))
	return c
}

// newRoot returns a root folder with a place for temporary files.
func newRoot(t *testing.T) string {
	t.Helper()
	root := testkit.ShortDir(t)
	tmp := filepath.Join(root, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o755), os.Chmod(tmp, 0o777|fs.ModeSticky), os.Chmod(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	return root
}

// The Debian package is installed in an empty root, used there, and removed.
func TestDpkgInstallsAndRemovesThePackage(t *testing.T) {
	tool.Need(t, "dpkg", "unshare")
	root := newRoot(t)
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) string {
		t.Helper()
		return output(t, exec.Command("dpkg", append([]string{"--root=" + root, "--force-not-root"}, args...)...))
	}
	dpkg("--install", artefact(t, "kernos_*_"+thisPlatform.processor+".deb"))
	want := `drwxr-xr-x usr
drwxr-xr-x usr/bin
-rwxr-xr-x usr/bin/kernos
drwxr-xr-x usr/lib
drwxr-xr-x usr/lib/systemd
drwxr-xr-x usr/lib/systemd/system
-rw-r--r-- usr/lib/systemd/system/kernos-backup.service
-rw-r--r-- usr/lib/systemd/system/kernos-backup.timer
-rw-r--r-- usr/lib/systemd/system/kernos.service
-rw-r--r-- usr/lib/systemd/system/kernos.socket
drwxr-xr-x usr/lib/sysusers.d
-rw-r--r-- usr/lib/sysusers.d/kernos.conf
drwxr-xr-x usr/lib/tmpfiles.d
-rw-r--r-- usr/lib/tmpfiles.d/kernos.conf
drwxr-xr-x usr/share
drwxr-xr-x usr/share/bash-completion
drwxr-xr-x usr/share/bash-completion/completions
-rw-r--r-- usr/share/bash-completion/completions/kernos
drwxr-xr-x usr/share/doc
drwxr-xr-x usr/share/doc/kernos
-rw-r--r-- usr/share/doc/kernos/LICENSES-OF-OTHERS
-rw-r--r-- usr/share/doc/kernos/README.md
-rw-r--r-- usr/share/doc/kernos/copyright
drwxr-xr-x usr/share/fish
drwxr-xr-x usr/share/fish/vendor_completions.d
-rw-r--r-- usr/share/fish/vendor_completions.d/kernos.fish
drwxr-xr-x usr/share/man
drwxr-xr-x usr/share/man/man1
-rw-r--r-- usr/share/man/man1/kernos.1.gz
drwxr-xr-x usr/share/zsh
drwxr-xr-x usr/share/zsh/vendor-completions
-rw-r--r-- usr/share/zsh/vendor-completions/_kernos
`
	if got := tree(t, root, "usr"); got != want {
		t.Errorf("it installs\n%swant\n%s", got, want)
	}
	if wrong := dpkg("--verify", "kernos"); wrong != "" {
		t.Errorf("dpkg finds %s", wrong)
	}

	home := filepath.Join(root, "home")
	withoutHTTP(t, home)
	env := []string{"HOME=/home", "KERNOS_HOME=/home"}
	kernos := func(args ...string) string {
		t.Helper()
		return output(t, within(t, root, "0:0", env, append([]string{"/usr/bin/kernos"}, args...)...))
	}
	kernos("memory", "set", "notes/1", "milk")
	if got := kernos("memory", "get", "notes/1"); got != "\"milk\"\n" {
		t.Errorf("the value is %q", got)
	}
	if got := kernos("upgrade", "--jq", ".installed"); got != "deb\n" {
		t.Errorf("it was installed with %q", got)
	}
	kernos("stop")

	dpkg("--remove", "kernos")
	if left := tree(t, root, "usr"); left != "" {
		t.Errorf("dpkg leaves\n%s", left)
	}
	if tree(t, root, "home") == "" {
		t.Error("the state has gone, too")
	}
}

// tree lists the folders and files below a folder, with their modes; "" if the folder doesn't exist.
func tree(t *testing.T, root, dir string) string {
	t.Helper()
	var list strings.Builder
	err := fs.WalkDir(os.DirFS(root), dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == dir {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			list.WriteString(info.Mode().String() + " " + name + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

// An instruction is a line of a Dockerfile.
type instruction struct {
	name string
	args string
}

// dockerfile reads the instructions of a Dockerfile.
func dockerfile(t *testing.T) (all []instruction) {
	t.Helper()
	text := strings.ReplaceAll(string(read(t, "Dockerfile")), "\\\n", "")
	for line := range strings.Lines(text) {
		if name, args, found := strings.Cut(strings.TrimSpace(line), " "); found && !strings.HasPrefix(name, "#") {
			all = append(all, instruction{name, strings.TrimSpace(args)})
		}
	}
	return all
}

// words returns the elements of an instruction in the form of JSON.
func (i instruction) words(t *testing.T) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(i.args), &words); err != nil {
		t.Fatalf("%s %s: %v", i.name, i.args, err)
	}
	return words
}

// The image is what its last stage says: a root folder with what is copied, where one user, who isn't root, runs the
// program. This makes such a root, and runs what the image starts and what checks its health.
func TestTheImageServes(t *testing.T) {
	tool.Need(t, "unshare")
	all := dockerfile(t)
	last := map[string]instruction{} // of the last stage
	owned := map[string]string{}     // the owners of folders that aren't root's
	for _, i := range all {
		if i.name == "FROM" {
			last, owned = map[string]instruction{}, map[string]string{}
		}
		last[i.name] = i
		if fields := strings.Fields(i.args); i.name == "COPY" && strings.HasPrefix(fields[1], "--chown=") {
			owned[fields[3]] = strings.TrimPrefix(fields[1], "--chown=")
		}
	}
	user, volume := last["USER"].args, last["VOLUME"].args
	env := strings.Fields(last["ENV"].args)
	switch {
	case last["FROM"].args != "scratch":
		t.Fatalf("the image is built from %q: this test knows images from nothing", last["FROM"].args)
	case user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root"):
		t.Fatalf("the user is %q", user)
	case owned[volume] != user || !slices.Contains(env, "KERNOS_HOME="+volume):
		t.Fatalf("the volume %q, with %q, is the home in %q and the user is %q", volume, owned, env, user)
	case last["EXPOSE"].args != "7420":
		t.Errorf("the port is %q", last["EXPOSE"].args)
	}
	entry := last["ENTRYPOINT"].words(t)
	_, check, _ := strings.Cut(last["HEALTHCHECK"].args, "CMD ")
	health := instruction{"HEALTHCHECK", check}.words(t)

	root := newRoot(t)
	home := filepath.Join(root, volume)
	output(t, exec.Command("tar", "xzf", archive(t), "-C", root, "--strip-components", "1", "--wildcards", "*/kernos"))
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if id, _, _ := strings.Cut(user, ":"); os.Geteuid() == 0 {
		n, err := strconv.Atoi(id)
		if err != nil {
			t.Fatalf("the user is %q, and would have to be looked up in a file that the image doesn't have", user)
		}
		if err := os.Chown(home, n, n); err != nil {
			t.Fatal(err)
		}
	}
	inside := func(args ...string) *exec.Cmd { return within(t, root, user, env, args...) }

	for _, value := range []string{"milk", "coffee"} { // the second container has the volume of the first
		started := inside(append(entry, last["CMD"].words(t)...)...)
		started.Env = append(started.Env, "KERNOS_NO_HTTP=true") // the network is that of the machine, where the port may be taken
		testkit.Piped(t, started)
		testkit.Until(t, "the container is healthy", func() bool { return inside(health...).Run() == nil })
		if got := output(t, inside("/kernos", "upgrade", "--jq", ".installed")); got != "container\n" {
			t.Errorf("it was installed with %q", got)
		}
		if got := inside("/kernos", "memory", "get", "notes/1"); (got.Run() == nil) != (value == "coffee") {
			t.Errorf("before notes/1 is %s: %v", value, got)
		}
		output(t, inside("/kernos", "memory", "set", "notes/1", value))
		if err := started.Process.Signal(syscall.SIGTERM); err != nil { // as docker stop does
			t.Fatal(err)
		}
		if err := started.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
		if inside(health...).Run() == nil {
			t.Error("a container that has ended is healthy")
		}
	}
}

// The stages that build the image name nothing that a stranger could publish: images without a name before the slash are
// Docker's own.
func TestTheImageIsBuiltFromWhatIsKnown(t *testing.T) {
	stages := map[string]bool{"scratch": true}
	for _, i := range dockerfile(t) {
		fields := strings.Fields(i.args)
		switch {
		case i.name == "ARG" && strings.HasPrefix(i.args, "GO="):
			if i.args != "GO=golang:1.26" {
				t.Errorf("the compiler is that of %s", i.args)
			}
		case i.name == "FROM":
			if !stages[fields[0]] && fields[0] != "${GO}" && fields[0] != "${FROM}" {
				t.Errorf("a stage is built from %s", fields[0])
			}
			if len(fields) == 3 {
				stages[fields[2]] = true
			}
		}
	}
	if !stages["source"] || !stages["release"] {
		t.Errorf("the stages are %v", stages)
	}
}
