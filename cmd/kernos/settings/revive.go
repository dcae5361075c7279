package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kernos/daemon"
	"kernos/internal/durable"
	"kernos/internal/visible"
)

// A daemon that a command starts, since it finds none, is the one that was there before: it has the settings that were given
// to the last kernos serve, which are remembered in the home, and nothing from the environment of the client that found
// it dead. That client may be in the directory of a repository that has come from anywhere.

// What a daemon that comes back has of the settings that it was given by flags and variables. Each setting is in one of these
// lists.
var (
	// kept are those that it has again.
	kept = []string{
		"addr", "auth-key", "embeddings", "execute", "fetch-deny", "fetch-only", "fetch-retries", "frame-rate", "grace", "idempotency-ttl", "idle",
		"in-flight", "in-flight-all", "jobs", "journal-age", "journal-size", "line-time", "max-body", "max-connections", "models", "no-http",
		"oauth-issuer", "request-rate", "require-agent", "seal-key", "stall", "timeout", "tls-cert", "tls-key", "token-file",
	}
	// ofMember are those of a member of a cluster, which has them again whatever opens its home; see [Membership].
	ofMember = []string{
		"cluster", "cluster-address", "cluster-ca", "cluster-cert", "cluster-credentials", "cluster-key", "cluster-listen", "cluster-name", "cluster-peers",
		"cluster-secret",
	}
	// forOneRun are folders; kernos trust is for those that are to stay.
	forOneRun = []string{"directory", "mount"}
	// weakening open a door, or widen what is reached through one.
	weakening = []string{
		"allow-host", "allow-origin", "development", "fetch-allow", "insecure-listen-without-signature", "insecure-listen-without-tls",
		"insecure-listen-without-token", "no-token", "open-unbound-secrets",
	}
)

// inherited are the variables that a daemon has from the process that starts it, in addition to the settings. The variables of kernos serve
// are remembered, and a daemon that comes back has these; see [Environment].
var inherited = []string{"PATH", "SSH_AUTH_SOCK", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "GOGC", "GOMEMLIMIT"}

// A memory is what is remembered of the last daemon of a home.
type memory struct {
	Settings  map[string][]string `json:"settings"`          // those that it has again, by name
	Dropped   []string            `json:"dropped,omitempty"` // the names of the others
	Variables map[string]string   `json:"variables,omitempty"`
}

func memoryFile(h daemon.Home) string {
	return filepath.Join(h.Dir, "daemons", h.Origin.Folder()+".json")
}

// recall returns what is remembered of the last daemon; nil if there was none.
func recall(h daemon.Home) (*memory, error) {
	text, err := readOwned(memoryFile(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := new(memory)
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, fmt.Errorf("the settings of the last daemon can't be read: %w; remove %s, or use kernos serve", err, memoryFile(h))
	}
	return m, nil
}

// complete sets the flags that weren't given to the settings of the last daemon.
func (m *memory) complete(flags *pflag.FlagSet, place string) error {
	for _, name := range kept {
		flag := flags.Lookup(name)
		if flag == nil || flag.Changed {
			continue
		}
		for _, text := range m.Settings[name] {
			if err := flags.Set(name, text); err != nil { // it counts as given, and so comes before config.yaml
				return fmt.Errorf("%s: %s: %w; kernos serve, or removing the file, forgets it", place, name, err)
			}
		}
	}
	return nil
}

// remember sorts the settings that a daemon was given into those that it has again, and others.
func remember(given map[string][]string) *memory {
	m := &memory{Settings: make(map[string][]string)}
	bare := func(name string) bool { return strings.HasPrefix(name, "insecure-") }
	exposed := slices.ContainsFunc(slices.Collect(maps.Keys(given)), bare) // its address may be one that isn't served without that
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(ofMember, name) {
			continue
		}
		if slices.Contains(kept, name) && (name != "addr" || !exposed) {
			m.Settings[name] = given[name]
		} else {
			m.Dropped = append(m.Dropped, name)
		}
	}
	return m
}

// Remember keeps the settings of this daemon for the one that comes back after it, and returns what people should know: one
// line for each change. Away are the names of code that isn't served, since its folder isn't trusted.
func (s *Serve) Remember(h daemon.Home, away []string) (notes []string, err error) {
	last, err := recall(h)
	if last == nil && err == nil && s.hadDaemon {
		notes = append(notes, movedNote(h, away))
	}
	next := remember(s.given)
	switch {
	case !s.Again:
		next.Variables = make(map[string]string)
		for _, name := range inherited {
			if value := os.Getenv(name); value != "" {
				next.Variables[name] = value
			}
		}
	case last != nil:
		next.Settings, next.Variables = last.Settings, last.Variables
		if len(last.Dropped) > 0 {
			flags := make([]string, len(last.Dropped))
			for i, name := range last.Dropped {
				flags[i] = "--" + name
			}
			notes = append(notes, fmt.Sprintf("the daemon runs again, without %s, which the last one was given for its run: kernos serve gives them again, and config.yaml in %s gives them for good",
				strings.Join(flags, ", "), h.Dir))
		}
	}
	text, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return notes, err
	}
	file := memoryFile(h)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return notes, err
	}
	return notes, durable.WriteFile(file, append(text, '\n'))
}

// movedNote is the line about a home of a version before 0.19.0.
func movedNote(h daemon.Home, away []string) string {
	text := fmt.Sprintf("os:// is %s now, wherever the daemon is started; a folder os that was os:// before comes back with kernos trust DIR, where DIR is its directory", h.Files())
	if len(away) > 0 {
		const shown = 3
		more := ""
		if len(away) > shown {
			more = fmt.Sprintf(" and %d more", len(away)-shown)
		}
		text += "; " + strings.Join(away[:min(len(away), shown)], ", ") + more + " of such a folder can't be called before that"
	}
	return text
}

// Environment returns the environment of a daemon that a command starts. Of this process it has what locates this user and
// the home; of the last kernos serve it has what is remembered. Without that, it has the PATH and the ssh-agent of this
// process, as far as they aren't in the directory where the command is used.
func Environment(h daemon.Home) ([]string, error) {
	m, err := recall(h)
	if err != nil {
		return nil, err
	}
	own := []string{"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "XDG_RUNTIME_DIR", "GORACE"}
	env := []string{"KERNOS_HOME=" + h.Dir, "KERNOS_ORIGIN=" + string(h.Origin)}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(own, name) || strings.HasPrefix(name, "LC_") {
			env = append(env, v)
		}
	}
	variables := map[string]string{"PATH": os.Getenv("PATH"), "TMPDIR": foreign(os.Getenv("TMPDIR"))}
	if m != nil && len(m.Variables) > 0 {
		variables = maps.Clone(m.Variables)
	}
	variables["PATH"] = Path(variables["PATH"])
	agent := variables["SSH_AUTH_SOCK"]
	if _, err := os.Stat(agent); err != nil { // the user has logged in again
		variables["SSH_AUTH_SOCK"] = foreign(os.Getenv("SSH_AUTH_SOCK"))
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if value := variables[name]; value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env, nil
}

// Path returns a PATH without entries that are relative, or in the repository of the working directory: a repository could
// bring programs.
func Path(path string) string {
	entries := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return foreign(dir) == "" })
	return strings.Join(entries, string(filepath.ListSeparator))
}

// foreign returns a path that is absolute and not in the repository of the working directory; "" for others.
func foreign(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	home, _ := os.UserHomeDir()
	for _, top := range []string{repository(here, home), repository(plain(here), plain(home))} {
		if !within(top, home) && (within(top, filepath.Clean(path)) || within(top, plain(path))) {
			return ""
		}
	}
	return path
}

// within reports whether a path is a directory, or below it, going by the names.
func within(dir, path string) bool {
	inner, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(inner)
}

// plain returns a path without symbolic links, if it exists.
func plain(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return filepath.Clean(path)
}

// repository returns the top of the git repository that a directory is in, or the directory itself. The home directory of a
// user isn't taken for a repository, although some keep it in one.
func repository(dir, home string) string {
	for at := dir; at != home; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return dir
}

// WarnOfSettings warns of variables that are settings of a daemon, and that a daemon which a command starts doesn't take.
func WarnOfSettings(people io.Writer) {
	var found []string
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); value != "" && strings.HasPrefix(name, "KERNOS_") && IsSetting(v) {
			found = append(found, name)
		}
	}
	if len(found) > 0 {
		slices.Sort(found)
		fmt.Fprintf(people, "kernos: the daemon that this command starts doesn't take %s from the environment: kernos serve does, and config.yaml in KERNOS_HOME is for good\n",
			visible.Text(strings.Join(found, ", ")))
	}
}
