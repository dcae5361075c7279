package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kernos/cmd/kernos/settings"
)

// A commandError is the error of a service manager's command.
type commandError struct {
	command string
	status  int
	said    string
}

func (e *commandError) Error() string { return e.command + ": " + e.said }

// Program returns the path of a program. It isn't looked for in the repository of the working directory.
func Program(name string) (string, error) {
	for _, dir := range filepath.SplitList(settings.Path(os.Getenv("PATH"))) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not on the PATH, so this system has no service manager that kernos service knows", name)
}

// run runs the command of a service manager, with variables in addition to those of this process.
func run(ctx context.Context, env []string, name string, args ...string) (printed string, err error) {
	program, err := Program(name)
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		text := cmp.Or(strings.TrimSpace(said.String()), ended.Error())
		return string(out), &commandError{name + " " + strings.Join(args, " "), ended.ExitCode(), strings.Join(strings.Fields(text), " ")}
	}
	return string(out), cmp.Or(context.Cause(ctx), err)
}
