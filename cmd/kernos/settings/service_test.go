package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kernos/daemon"
	"kernos/store"
)

// forService returns the flags of a service that is installed with some.
func forService(t *testing.T, flags ...string) ([]string, error) {
	t.Helper()
	c := new(cobra.Command)
	s := AddServeFlags(c)
	if err := c.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	return s.ForService(c, "1.0.0")
}

// A service has the settings of its flags and of config.yaml, wherever its manager starts it; not those of variables.
func TestSettingsOfAService(t *testing.T) {
	config(t, "idle: 1h\n")
	t.Setenv("KERNOS_ADDR", "127.0.0.1:1")
	here := t.TempDir()
	t.Chdir(here)
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnWTe4G2FTkLGkQNIxT4CsQwN3Na4nTcHrG4LHiqTpL a\n"
	if err := os.WriteFile("keys", []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	args, err := forService(t, "--auth-key", "keys", "--mount", "/n=notes:ro", "--mount", "/w=https://a.example/", "--journal-age", "30d", "--no-http")
	want := []string{"--auth-key=" + filepath.Join(here, "keys"), "--journal-age=720h0m0s", "--mount=/n=" + filepath.Join(here, "notes:ro"), "--mount=/w=https://a.example/", "--no-http=true"}
	if err != nil || !slices.Equal(args, want) {
		t.Errorf("got %q, %v\nwant %q", args, err, want)
	}
	// They are what kernos serve takes.
	c := new(cobra.Command)
	s := AddServeFlags(c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if again, err := s.ForService(c, "1.0.0"); err != nil || !slices.Equal(again, args) {
		t.Errorf("got %q, %v", again, err)
	}
	for flag, want := range map[string]string{
		"--mount=/a=https://ada:swordfish@a.example/x":                                                                    "--mount has a credential",
		`--models={"m":{"dialect":"openai-chat","baseUrl":"https://a.example/v1","model":"x","key":"sk-12345678abcdef"}}`: "--models has a credential",
		"--fetch-retries=99": "--fetch-retries: expected a number from 0 to 10",
	} {
		if _, err := forService(t, flag); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "swordfish") || strings.Contains(err.Error(), "sk-1") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestVariablesOfAService(t *testing.T) {
	user, runtime := t.TempDir(), t.TempDir()
	for name, value := range map[string]string{
		"HOME": user, "XDG_RUNTIME_DIR": runtime, "PATH": "/usr/bin:relative", "KERNOS_TOKEN": "secret", "KERNOS_ADDR": "127.0.0.1:1", "LANG": "C",
		"SSH_AUTH_SOCK": "/tmp/ssh-1/agent", "TMPDIR": "", "SSL_CERT_FILE": "", "SSL_CERT_DIR": "", "GOGC": "", "GOMEMLIMIT": "",
	} {
		t.Setenv(name, value)
	}
	agent := filepath.Join(runtime, "agent")
	if err := os.WriteFile(agent, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	home := daemon.Home{Dir: filepath.Join(user, "k"), Origin: store.DefaultOrigin}
	for _, c := range []struct {
		origin      store.Origin
		agent, left string
		more        []string
	}{
		{store.DefaultOrigin, "/tmp/ssh-1/agent", "/tmp/ssh-1/agent", nil},
		{"https://a.example/", agent, "", []string{"KERNOS_ORIGIN=https://a.example/", "SSH_AUTH_SOCK=" + agent}},
	} {
		home.Origin = c.origin
		t.Setenv("SSH_AUTH_SOCK", c.agent)
		env, left, err := ServiceEnvironment(home)
		slices.Sort(env)
		want := append([]string{"KERNOS_HOME=" + home.Dir, "PATH=/usr/bin", "XDG_RUNTIME_DIR=" + runtime}, c.more...)
		slices.Sort(want)
		if err != nil || left != c.left || !slices.Equal(env, want) {
			t.Errorf("got %q, %q, %v\nwant %q", env, left, err, want)
		}
	}
}

func TestTheDefaultHome(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data")
	for home, want := range map[daemon.Home]bool{
		{Dir: "/data/kernos", Origin: store.DefaultOrigin}:      true,
		{Dir: "/data/kernos", Origin: "https://a.example/"}:     false,
		{Dir: "/elsewhere/kernos", Origin: store.DefaultOrigin}: false,
	} {
		if got := IsDefault(home); got != want {
			t.Errorf("%v: %t", home, got)
		}
	}
}
