package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/store"
)

// onPath puts a program, a shell script, in front of all others.
func onPath(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// launchctl is a launchctl whose service is in files of the folder $LAUNCHD. It prints what that of macOS does.
const launchctl = `
echo "$@" >> "$LAUNCHD/calls"
case "$1" in
print)
	case "$2" in */*/*) ;; *) exit 0 ;; esac # the session
	[ -f "$LAUNCHD/loaded" ] || { echo "Could not find service \"kernos\" in domain for user gui" >&2; exit 113; }
	printf 'gui/501/kernos = {\n\tactive count = 1\n\tpath = /p\n\tendpoints = {\n\t\tstate = other\n\t\tpid = 1\n\t}\n'
	if [ -f "$LAUNCHD/pid" ]; then
		printf '\tstate = running\n\tpid = %s\n' "$(cat "$LAUNCHD/pid")"
	else
		printf '\tstate = not running\n\tlast exit code = 78: EX_CONFIG\n'
	fi
	echo '}' ;;
bootstrap) [ -f "$3" ] || exit 5; touch "$LAUNCHD/loaded"; echo 42 > "$LAUNCHD/pid" ;;
bootout) rm "$LAUNCHD/loaded" "$LAUNCHD/pid" ;;
kickstart) echo 43 > "$LAUNCHD/pid" ;;
kill) rm "$LAUNCHD/pid" ;;
*) echo "unrecognized subcommand: $1" >&2; exit 64 ;;
esac
`

// The whole life of a service of launchd.
func TestLaunchd(t *testing.T) {
	state := t.TempDir()
	t.Setenv("LAUNCHD", state)
	t.Setenv("HOME", t.TempDir())
	onPath(t, "launchctl", launchctl)
	home := daemon.Home{Dir: t.TempDir(), Origin: store.DefaultOrigin}
	s := named("kernos", home, "darwin")
	var calls int
	called := func(want ...string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(state, "calls"))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		var got []string
		for _, line := range lines[calls:] {
			verb, _, _ := strings.Cut(line, " ")
			got = append(got, verb)
		}
		calls = len(lines)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("launchctl was called with %q, %v; want %q", got, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(state string, pid int) {
		t.Helper()
		now, err := s.Status(t.Context())
		if err != nil || now.State != state || now.PID != pid || now.Listening || now.Manager != "launchd" {
			t.Errorf("got %+v, %v", now, err)
		}
	}
	must(s.Available(t.Context()))
	facts := awkward()
	paths, err := s.Install(facts, false)
	if err != nil || len(paths) != 1 || !strings.HasSuffix(paths[0], "/Library/LaunchAgents/kernos.plist") || !s.Installed() || s.Listens() {
		t.Fatalf("%q, %v", paths, err)
	}
	must(s.Enable(t.Context()))
	called("print", "print", "bootstrap")
	is("running", 42)
	must(s.Start(t.Context())) // it runs
	must(s.Stop(t.Context()))
	must(s.Stop(t.Context())) // it doesn't
	called("print", "print", "print", "kill", "print")
	is("not running", 0)
	if now, _ := s.Status(t.Context()); now.Text != "the last run ended with 78: EX_CONFIG" {
		t.Errorf("it reports %s", now.Text)
	}
	must(s.Start(t.Context()))
	called("print", "print", "print", "kickstart")
	is("running", 43)
	must(s.Enable(t.Context())) // with other settings, as after --replace
	called("print", "print", "bootout", "bootstrap")
	program, args := s.Logs(7, true)
	if want := []string{"-n", "7", "-F", filepath.Join(home.State(), "log", "service.log"), filepath.Join(home.State(), "log", "kernos.log")}; program != "tail" || !slices.Equal(args, want) {
		t.Errorf("logs are shown by %s %q", program, args)
	}
	must(s.Disable(t.Context()))
	must(s.Remove(t.Context(), s.Files()))
	if s.Installed() {
		t.Error("it is still there")
	}
}

func TestWhatIsThereIsNotOverwritten(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	s := named("kernos", daemon.Home{Dir: "/h", Origin: store.DefaultOrigin}, "linux")
	facts := awkward()
	first, err := s.Install(facts, false)
	if err != nil || !slices.Equal(first, s.Files()) || len(first) != 2 {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := s.Install(facts, false); err != nil || again != nil {
		t.Errorf("the same again wrote %q, %v", again, err)
	}
	facts.Arguments = nil
	_, err = s.Install(facts, false)
	if e, ok := errors.AsType[*OtherSettings](err); !ok || e.Path != first[0] || !strings.Contains(e.Has, "--fetch-only=true") || strings.Contains(e.Wants, "--fetch-only") {
		t.Errorf("got %v", err)
	}
	if changed, err := s.Install(facts, true); err != nil || !slices.Equal(changed, first[:1]) {
		t.Errorf("replacing wrote %q, %v", changed, err)
	}
	const own = "[Service]\nExecStart=/home/ada/bin/mine\n"
	if err := os.WriteFile(first[0], []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Installed() || s.Listens() {
		t.Error("a unit of the user's own is taken for the service")
	}
	_, err = s.Install(facts, true)
	if now, _ := os.ReadFile(first[0]); err == nil || !strings.Contains(err.Error(), "move it away first") || string(now) != own {
		t.Errorf("%v; the file is %s", err, now)
	}
}

func TestSystemsWithoutAManager(t *testing.T) {
	home := daemon.Home{Dir: "/h", Origin: store.DefaultOrigin}
	s := named("kernos", home, "freebsd")
	if err := s.Available(t.Context()); err == nil || !strings.Contains(err.Error(), "this is freebsd") || s.Installed() {
		t.Errorf("got %v", err)
	}
	onlyHere := t.TempDir()
	t.Setenv("PATH", onlyHere)
	t.Setenv("XDG_RUNTIME_DIR", onlyHere)
	s = named("kernos", home, "linux")
	if err := s.Available(t.Context()); err == nil || !strings.Contains(err.Error(), "systemctl is not on the PATH") {
		t.Errorf("got %v", err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if err := s.Available(t.Context()); err == nil || !strings.Contains(err.Error(), "loginctl enable-linger") {
		t.Errorf("got %v", err)
	}
}

// What the command of a service manager writes to its standard error is the reason; the end of a context is another one.
func TestCommandsThatFail(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	onPath(t, "systemctl", `echo "Failed to start kernos.service: Unit is masked." >&2; exit 5`)
	s := named("kernos", daemon.Home{Dir: "/h", Origin: store.DefaultOrigin}, "linux")
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "Unit is masked.; kernos service status") {
		t.Errorf("got %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Start(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A repository that brings a program of this name isn't asked for it.
func TestTheWorkingDirectoryBringsNoManager(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", dir+":.")
	if path, err := Program("systemctl"); err == nil {
		t.Errorf("it is %s", path)
	}
}
