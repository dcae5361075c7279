package server

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"kernos/cmd/kernos/service"
	"kernos/cmd/kernos/settings"
	"kernos/internal/exit"
	"kernos/internal/visible"
	"kernos/transport/unix"
)

// find connects to the daemon. With start, the daemon is started if it isn't running; without it, the connection is nil then.
func (d *Daemon) find(ctx context.Context, start bool) (*unix.Conn, error) {
	switch {
	case start:
		return d.ConnectOrStart(ctx)
	case d.Asleep():
		return nil, nil
	}
	return d.Connect(ctx)
}

// ConnectOrStart connects to the daemon, and starts it if it is not running: the service of the home where one is
// installed, and otherwise a daemon in the background. If several
// processes do so at the same time, one of them starts it, and all connect to the same one.
func (d *Daemon) ConnectOrStart(ctx context.Context) (conn *unix.Conn, err error) {
	err = Retry(ctx, EndTime()+StartTime(), func(context.Context) (again bool, err error) {
		if conn, err = d.Connect(ctx); conn != nil || err != nil {
			return false, err
		}
		if s := d.Service(); s.Installed() {
			conn, err = d.startService(ctx, s)
			return conn == nil && err == nil, err
		}
		text, late, err := d.start(ctx)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case late:
			return false, unreachable(fmt.Errorf("the daemon was started and does not answer after %v; see %s", StartTime(), LogPath(d.Home)))
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

// startService starts the service of the home, and connects to its daemon.
func (d *Daemon) startService(ctx context.Context, s *service.Service) (conn *unix.Conn, err error) {
	starting, cancel := context.WithTimeout(ctx, StartTime())
	defer cancel()
	if err := s.Start(starting); err != nil && ctx.Err() == nil && starting.Err() != nil {
		return nil, d.silent(StartTime())
	} else if err != nil {
		return nil, unreachable(err)
	}
	err = Retry(starting, StartTime(), func(ctx context.Context) (again bool, err error) {
		if conn, err = d.Connect(ctx); conn == nil && err == nil {
			return true, d.silent(StartTime())
		}
		return false, err
	})
	return conn, err
}

// ErrTaken is the error of a daemon that finds another one running.
var ErrTaken = errors.New("another daemon runs")

// DetachedFlag is the flag of a daemon that serves in the background.
const DetachedFlag = "--detached"

// A startReport is the line of JSON with which a detached daemon reports to the process that has started it:
// whether it serves, and if not, why.
type startReport struct {
	Serves bool     `json:"serves"`
	Error  string   `json:"error,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what people should know of it
}

// ReportServing writes the report of a detached daemon that serves, with what people should know of it.
func ReportServing(w io.Writer, notes []string) { startReport{Serves: true, Notes: notes}.write(w) }

// ReportFailure writes the report of a detached daemon that ends with an error.
func ReportFailure(w io.Writer, err error) { startReport{Error: err.Error()}.write(w) }

func (r startReport) write(w io.Writer) {
	_ = json.NewEncoder(w).Encode(r) // if the process that waits for the report is gone, nothing reads it
}

// start starts a daemon in the background; see Launch.
func (d *Daemon) start(ctx context.Context) (text string, late bool, err error) {
	c, err := d.Command()
	if err != nil {
		return "", false, err
	}
	settings.WarnOfVariables(os.Stderr) // the daemon has no terminal
	settings.WarnOfSettings(os.Stderr)
	return d.Launch(ctx, c)
}

// Command returns the command that starts a daemon like the last one. It depends neither on the directory of this process nor on
// settings in its environment; see [settings.Environment].
func (d *Daemon) Command() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "serve", DetachedFlag, "--again")
	c.Args[0] = "kernos"
	c.Dir = d.Dir // the file system of the working directory can still be unmounted
	c.Env, err = settings.Environment(d.Home)
	return c, err
}

// Launch starts a daemon, and waits until it serves or has ended, in which case text is
// why, or until that takes too long.
func (d *Daemon) Launch(ctx context.Context, c *exec.Cmd) (text string, late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, StartTime())
	defer cancel()
	if err := settings.Explain(d.Make()); err != nil {
		return "", false, err
	}
	output, input, err := os.Pipe()
	if err != nil {
		return "", false, err
	}
	defer func() { _ = output.Close() }()
	c.Stderr = input
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of this terminal do not reach it
	closeOnExec()
	err = c.Start()
	_ = input.Close()
	if err != nil {
		return "", false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = output.Close() })
	defer stop()
	text, serves, notes := readStart(io.LimitReader(output, 64<<10))
	for _, note := range notes {
		fmt.Fprintf(os.Stderr, "kernos: %s\n", visible.Text(note))
	}
	if serves {
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

// readStart reads what a detached daemon prints until its report. Text is the error in the report. A daemon that ends
// without a report, such as one that panics, gets its last line as the text.
func readStart(printed io.Reader) (text string, serves bool, notes []string) {
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		var r startReport
		if json.Unmarshal(lines.Bytes(), &r) == nil && (r.Serves || r.Error != "") {
			return r.Error, r.Serves, r.Notes
		}
		text = cmp.Or(strings.TrimSpace(lines.Text()), text)
	}
	return text, false, nil
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
