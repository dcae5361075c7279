package settings

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kernos/daemon"
	"kernos/store"
)

// ofService are the variables that a service has from the command that installs it.
var ofService = []string{"GOGC", "GOMEMLIMIT", "KERNOS_HOME", "KERNOS_ORIGIN", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "XDG_RUNTIME_DIR"}

// ForService checks the settings of a service that is to be installed: those of flags and of config.yaml, and none of the environment. It
// returns the flags with which a service manager, in any directory, starts a daemon with them. Flags with a credential
// are an error, since other users may read the file of a service.
func (s *Serve) ForService(c *cobra.Command, version string) (args []string, err error) {
	home, err := Home()
	if err != nil {
		return nil, err
	}
	if s.given, _, err = complete(c, func(string) string { return "" }); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.given)) {
		for _, value := range s.given[name] {
			if name == "mount" {
				value = absoluteMount(value)
			}
			if withoutCredentials(value) != value {
				return nil, fmt.Errorf("--%s has a credential, which other users could read in the file of a service: set it in %s", name, filepath.Join(home.Dir, "config.yaml"))
			}
			args = append(args, "--"+name+"="+value)
		}
	}
	return args, s.finish(home, version)
}

// absoluteMount returns a mount whose target doesn't depend on the working directory.
func absoluteMount(text string) string {
	at, target, ok := strings.Cut(text, "=")
	if !ok || strings.Contains(target, "://") {
		return text
	}
	path, err := filepath.Abs(target)
	if err != nil {
		return text
	}
	return at + "=" + path
}

// ServiceEnvironment returns the variables that the service of a home has, and the ssh-agent that it doesn't have since the agent
// is of one login; "" if there is none.
func ServiceEnvironment(h daemon.Home) (env []string, left string, err error) {
	all, err := Environment(h)
	if err != nil {
		return nil, "", err
	}
	user, _ := os.UserHomeDir()
	for _, assignment := range all {
		name, value, _ := strings.Cut(assignment, "=")
		switch {
		case name == "SSH_AUTH_SOCK":
			if !within(os.Getenv("XDG_RUNTIME_DIR"), value) && !within(user, value) {
				left = value
				continue
			}
		case name == "KERNOS_ORIGIN" && h.Origin == store.DefaultOrigin, !slices.Contains(ofService, name):
			continue
		}
		env = append(env, assignment)
	}
	return env, left, nil
}

// GivenToLast returns the settings that the last daemon was given by flags and variables, and that this one isn't.
func (s *Serve) GivenToLast(h daemon.Home) (flags []string) {
	last, err := recall(h)
	if err != nil || last == nil {
		return nil
	}
	for _, name := range slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(last.Settings)), last.Dropped))) {
		if s.given[name] == nil {
			flags = append(flags, "--"+name)
		}
	}
	return flags
}
