package settings

import (
	"os"
	"slices"
	"strings"

	"kernos/transport/unix"
)

// IsSetting reports whether a variable of the environment, in the form NAME=VALUE, changes how a
// daemon serves.
func IsSetting(assignment string) bool {
	name, _, _ := strings.Cut(assignment, "=")
	is := func(setting string) bool { return VariableOf(setting) == name }
	return name == "SSH_AUTH_SOCK" || slices.ContainsFunc(names, is)
}

// MaxStart is how many bytes the arguments and variables in a unix.Info may have.
const MaxStart = 8 << 10

// describeStart records how this process was started, unless that is too long.
func describeStart(info *unix.Info) {
	dir, err := os.Getwd()
	if err != nil {
		return
	}
	args := os.Args[1:]
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return !IsSetting(v) })
	if len(strings.Join(args, ""))+len(strings.Join(env, "")) > MaxStart {
		return
	}
	info.Dir, info.Args, info.Env = dir, args, env
}
