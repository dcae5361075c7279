package connect

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

// connectOrStart connects to the daemon, and starts it if it is not running. If several
// processes do so at the same time, one of them starts it, and all connect to the same one.
func (d *Daemon) connectOrStart(ctx context.Context) (conn *unix.Conn, err error) {
	err = Retry(ctx, EndTime+StartTime, func(context.Context) (again bool, err error) {
		if conn, err = d.Connect(ctx); conn != nil || err != nil {
			return false, err
		}
		text, late, err := d.start(ctx)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case late:
			return false, unreachable(fmt.Errorf("the daemon was started and does not answer after %v; see %s", StartTime, logfile.Path(d.Home)))
		case err != nil && text != "":
			return false, unreachable(fmt.Errorf("the daemon did not start: %s", text))
		case err != nil: // the daemon that was first may be gone as soon
			return errors.Is(err, ErrTaken), unreachable(fmt.Errorf("the daemon did not start: %w", err))
		}
		conn, err = d.Connect(ctx)
		return conn == nil && err == nil, err
	})
	return conn, err
}

// ErrTaken is the error of a daemon that finds another one running.
var ErrTaken = errors.New("another daemon runs")

// DetachedFlag is the flag of a daemon that serves in the background.
const DetachedFlag = "--detached"

// Ready is the line that a detached daemon prints when it serves. If it prints anything else
// before, that is the reason why it doesn't.
const Ready = "ready"

// start starts a daemon in the background; see Launch.
func (d *Daemon) start(ctx context.Context) (text string, late bool, err error) {
	c, err := d.Command()
	if err != nil {
		return "", false, err
	}
	settings.WarnOfVariables(os.Stderr) // the daemon has no terminal
	return d.Launch(ctx, c)
}

// Command returns the command that starts a daemon with the settings of this process.
func (d *Daemon) Command() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		here = d.Dir // the working directory was removed; the root is the greeting then
	}
	c := exec.Command(self, "serve", DetachedFlag, "--from", here)
	c.Args[0] = "kernos"
	c.Dir = d.Dir // the file system of the working directory can still be unmounted
	c.Env = append(os.Environ(), "KERNOS_HOME="+d.Dir)
	absolute, err := settings.AbsoluteVariables()
	c.Env = append(c.Env, absolute...)
	return c, err
}

// Launch starts a daemon, and waits until it serves or has ended, in which case text is
// why, or until that takes too long.
func (d *Daemon) Launch(ctx context.Context, c *exec.Cmd) (text string, late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, StartTime)
	defer cancel()
	if err := settings.Explain(d.Make()); err != nil {
		return "", false, err
	}
	said, says, err := os.Pipe()
	if err != nil {
		return "", false, err
	}
	defer func() { _ = said.Close() }()
	c.Stderr = says
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of this terminal do not reach it
	closeOnExec()
	err = c.Start()
	_ = says.Close()
	if err != nil {
		return "", false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = said.Close() })
	defer stop()
	text, ready := readStart(io.LimitReader(said, 64<<10))
	if ready {
		return "", false, c.Process.Release()
	}
	if ctx.Err() != nil {
		return "", true, errors.Join(ctx.Err(), c.Process.Release())
	}
	err = c.Wait()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == exit.Taken {
		return "", false, ErrTaken
	}
	if err == nil {
		err = errors.New("it ended at once")
	}
	return text, false, err
}

// readStart reads what a detached daemon prints until it serves, or has ended. Then text is its
// error, however many lines that has, or its last line if none begins like an error.
func readStart(said io.Reader) (text string, ready bool) {
	named := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if lines.Text() == Ready {
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

// closeOnExec keeps the files that this process inherited, beside its standard ones, from the
// daemon that it starts: the daemon would hold them open for as long as it lives, and readers
// that wait for their end would wait with it.
func closeOnExec() {
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
