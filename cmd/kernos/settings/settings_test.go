package settings

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// config writes a configuration file, and returns its name.
func config(t *testing.T, text string) string {
	t.Helper()
	home := t.TempDir()
	t.Setenv("KERNOS_HOME", home)
	name := filepath.Join(home, "config.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// serveCommand has the flags of kernos serve.
func serveCommand() *cobra.Command {
	c := new(cobra.Command)
	AddServeFlags(c)
	return c
}

// HTTP and WebSockets are served at the default address, unless a variable names another one.
//
// Clauses: RPC-1.1-1
func TestTheAddressComesFromAVariable(t *testing.T) {
	config(t, "")
	for _, want := range []string{"127.0.0.1:7420", "127.0.0.1:7421"} {
		if want != "127.0.0.1:7420" {
			t.Setenv("KERNOS_ADDR", want)
		}
		c := new(cobra.Command)
		s := AddServeFlags(c)
		if err := Complete(c); err != nil {
			t.Fatal(err)
		}
		if s.Web.Address != want {
			t.Errorf("the address is %s, want %s", s.Web.Address, want)
		}
	}
}

func TestSettingsComeFromFlagsVariablesAndTheFile(t *testing.T) {
	name := config(t, "idle: 1h\nline-time: 2m\nmax-connections: 7\nframe-rate: 0.5\nauth-key: keys\n# all there is\njournal-size: 1MB\n")
	t.Setenv("KERNOS_LINE_TIME", "30s")
	t.Setenv("KERNOS_MAX_CONNECTIONS", "8")
	c := serveCommand()
	if err := c.ParseFlags([]string{"--max-connections", "9"}); err != nil {
		t.Fatal(err)
	}
	if err := Complete(c); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"idle": time.Hour.String(), "line-time": "30s", "max-connections": "9", "frame-rate": "0.5",
		"auth-key": filepath.Join(filepath.Dir(name), "keys"), "journal-size": "1MB", "grace": "10s", "in-flight": "64",
	} {
		if got := c.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", flag, got, want)
		}
	}
	for _, setting := range names {
		if c.Flags().Lookup(setting) == nil {
			t.Errorf("%s is a setting, and no flag of kernos serve", setting)
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		// How it is started is nothing to be set.
		if !slices.Contains([]string{"again", "detached", "help", "service"}, f.Name) && !slices.Contains(names, f.Name) {
			t.Errorf("%s is a flag of kernos serve, and no setting", f.Name)
		}
	})
}

func TestVariablesThatAreNoSettingsAreTold(t *testing.T) {
	config(t, "")
	t.Setenv("KERNOS_AUTH_KEYS", "/none")
	t.Setenv("KERNOS_COLOUR", "red")
	t.Setenv("KERNOS_EMPTY", "")
	t.Setenv("KERNOS_TEST_ALL", "1")
	t.Setenv("KERNOS_IDLE", "1h")
	for _, v := range OtherVariables {
		if v.Name != "KERNOS_HOME" {
			t.Setenv(v.Name, "x")
		}
	}
	c := serveCommand()
	var told strings.Builder
	c.SetErr(&told)
	if err := Complete(c); err != nil {
		t.Fatal(err)
	}
	want := "kernos: KERNOS_AUTH_KEYS is not a setting, and is ignored: did you mean KERNOS_AUTH_KEY?\n" +
		"kernos: KERNOS_COLOUR is not a setting, and is ignored: kernos serve --help lists the settings\n"
	if told.String() != want {
		t.Errorf("told %q, want %q", told.String(), want)
	}
}

func TestVariablesThatAreAskedForAreKnown(t *testing.T) {
	asked := regexp.MustCompile(`(?:Getenv|LookupEnv)\("(KERNOS_\w+)"\)`)
	found := 0
	err := filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range asked.FindAllStringSubmatch(string(text), -1) {
			if found++; !slices.ContainsFunc(OtherVariables, func(v Variable) bool { return v.Name == m[1] }) {
				t.Errorf("%s asks for %s, which is not among those that are known", name, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no variable is asked for")
	}
}

func TestSettingsThatCantBe(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"idle: soon", `FILE:1: idle: expected a time such as 90m, 720h or 30d, got "soon"`},
		{"\nidel: 1h", `FILE:2: the setting "idel" does not exist: did you mean idle?`},
		{"colour: red", `FILE:1: the setting "colour" does not exist: the settings are addr, allow-host,`},
		{"idle: 1h\nidle: 2h", `FILE`},
		{"idle: [1h]", "FILE:1: idle must have one value"},
		{"- idle", "FILE:1: expected settings such as idle: 10m, one per line"},
		{"idle: {", "FILE: "},
		{"max-connections: 0", `FILE:1: max-connections: expected a whole number, at least 1, got "0"`},
		{"frame-rate: -1", `FILE:1: frame-rate: expected messages per second such as 1000, or 0 for no limit, got "-1"`},
		{"frame-rate: .nan", `FILE:1: frame-rate: expected messages per second`},
	} {
		name := config(t, c.text)
		err := Complete(serveCommand())
		if want := strings.ReplaceAll(c.want, "FILE", name); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", c.text, err, want)
		}
	}
	for _, text := range []string{"", "# nothing", "---\n", "null"} {
		config(t, text)
		if err := Complete(serveCommand()); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, text := range []string{"idle: 1h\n", "a: b", "- a", "{", "&a idle: *a", "? [a]\n: b", "idle: !!binary aaa"} {
		f.Add([]byte(text))
	}
	name := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		settings, err := readConfig(name)
		if err != nil && (settings != nil || !strings.HasPrefix(err.Error(), name)) {
			t.Errorf("%v: %v", settings, err)
		}
	})
}

// A file that other users may write is not obeyed, nor is one in a directory where they could
// put another in its place.
func TestSettingsOfOthersAreNotObeyed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte("idle: 10m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readConfig(path); err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	for name, exposed := range map[string]string{"the file": path, "the directory": dir} {
		info, err := os.Stat(exposed)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(exposed, info.Mode().Perm()|0o020); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(path); err == nil || !strings.Contains(err.Error(), "not obeyed: "+name+" may be written by other users") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Chmod(exposed, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestModelsAreAMappingInTheFile(t *testing.T) {
	t.Setenv("KERNOS_HOME", "")
	for _, c := range []struct{ file, want string }{
		{"models:\n  local:\n    dialect: openai-chat\n    baseUrl: http://127.0.0.1:11434/v1\n    model: qwen3\n    price: {input: 0.5}\n  default: local\n", ""},
		{"models:\n  local:\n    dialect: openai\n", `--models: local: dialect: expected anthropic-messages, demo, openai-chat, syscall or replay, got "openai"`},
		{"models:\n  local: {dialect: openai-chat, baseUrl: \"https://a.example\", model: x, key: sk-secret}\n", `--models: local: key: expected a string that is sealed for the host: kernos crypto seal --for a.example`},
		{"models: 7\n", `:1: models: expected settings by name`},
	} {
		config(t, c.file)
		cmd := new(cobra.Command)
		s := AddServeFlags(cmd)
		err := s.Complete(cmd, "test")
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sk-secret") {
				t.Errorf("%q: got %v, want %s", c.file, err, c.want)
			}
		case err != nil || string(s.Models["local"]) != `{"baseUrl":"http://127.0.0.1:11434/v1","dialect":"openai-chat","model":"qwen3","price":{"input":0.5}}` || string(s.Models["default"]) != `"local"`:
			t.Errorf("%q: got %s, %v", c.file, s.Models, err)
		}
	}
}

// What is shown of settings has no credentials, also where a person has written one that a daemon would refuse.
func TestSettingsAreShownWithoutCredentials(t *testing.T) {
	for value, want := range map[string]string{
		`{"m":{"baseUrl":"http://a.example/v1","key":"sk-12345678abcdef"}}`: `{"m":{"baseUrl":"http://a.example/v1","key":"[redacted]"}}`,
		"/a=https://ada:swordfish@a.example/x,/b=/srv:ro":                   "/a=https://[redacted]@a.example/x,/b=/srv:ro",
		"127.0.0.1:7420": "127.0.0.1:7420",
	} {
		if got := withoutCredentials(value); got != want {
			t.Errorf("%s is shown as %s, want %s", value, got, want)
		}
	}
}
