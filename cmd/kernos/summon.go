package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/logfile"
	"kernos/cmd/kernos/settings"
	"kernos/transport/unix"
)

// summon returns a connection to the daemon, which it starts if there is none. Of several
// that do so at the same moment, one starts it, and all get the same.
func (a *address) summon(ctx context.Context) (*unix.Conn, error) {
	trying, cancel := context.WithTimeout(ctx, leaving+patience)
	defer cancel()
	wait := waits(trying)
	for {
		conn, err := a.connect(ctx)
		if conn != nil || err != nil {
			return conn, err
		}
		text, late, err := a.start(ctx)
		if errors.Is(err, errTaken) && wait() {
			continue // whoever was first may be gone as soon
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case late:
			return nil, &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf(
				"the daemon was started and does not answer after %v; %s says what it does", patience, logfile.Path(a.Home))}
		case err != nil && text != "":
			return nil, &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf("the daemon did not start: %s", text)}
		case err != nil:
			return nil, &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf("the daemon did not start: %w", err)}
		}
	}
}

// errTaken says that another daemon was first.
var errTaken = errors.New("another daemon runs")

// readiness is what a detached daemon says when it serves. Whatever else it says before is
// why it does not.
const readiness = "ready"

// start starts a daemon that lives on by itself; see launch.
func (a *address) start(ctx context.Context) (text string, late bool, err error) {
	c, err := a.command()
	if err != nil {
		return "", false, err
	}
	settings.WarnOfVariables(os.Stderr) // the daemon has nobody to tell
	return a.launch(ctx, c)
}

// command returns the command that starts a daemon with the settings of this process.
func (a *address) command() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		here = a.Dir // it was removed; the root is the greeting then
	}
	c := exec.Command(self, "serve", detachedFlag, "--from", here)
	c.Args[0] = "kernos"
	c.Dir = a.Dir // not where somebody may want to unmount a disk
	c.Env = append(os.Environ(), "KERNOS_HOME="+a.Dir)
	absolute, err := settings.AbsoluteVariables()
	c.Env = append(c.Env, absolute...)
	return c, err
}

// launch starts a daemon, and waits until it serves or has ended, in which case text is
// why, or until that takes too long.
func (a *address) launch(ctx context.Context, c *exec.Cmd) (text string, late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := settings.Explain(a.Make()); err != nil {
		return "", false, err
	}
	said, says, err := os.Pipe()
	if err != nil {
		return "", false, err
	}
	defer func() { _ = said.Close() }()
	c.Stderr = says
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of this terminal are not for it
	seal()
	err = c.Start()
	_ = says.Close()
	if err != nil {
		return "", false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = said.Close() })
	defer stop()
	text, ready := listen(io.LimitReader(said, 64<<10))
	if ready {
		return "", false, c.Process.Release()
	}
	if ctx.Err() != nil {
		return "", true, errors.Join(ctx.Err(), c.Process.Release())
	}
	err = c.Wait()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == exit.Taken {
		return "", false, errTaken
	}
	if err == nil {
		err = errors.New("it ended at once")
	}
	return text, false, err
}

// listen reads what a detached daemon says until it serves, or has ended. Then text is its
// error, however many lines that has, or its last word if it names none.
func listen(said io.Reader) (text string, ready bool) {
	named := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if lines.Text() == readiness {
			return "", true
		}
		line := strings.TrimSpace(lines.Text())
		switch reason, begins := strings.CutPrefix(line, "kernos: "); {
		case line == "":
		case named:
			text += "\n" + line
		default:
			text, named = reason, begins
		}
	}
	return text, false
}

// seal keeps the files that this process was given, beside its standard ones, from those
// that it starts: a daemon would hold them open for as long as it lives, and whoever waits
// for their end would wait with it.
func seal() {
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // a system without it
	}
	for _, f := range files {
		if n, err := strconv.Atoi(f.Name()); err == nil && n > 2 {
			syscall.CloseOnExec(n)
		}
	}
}
