package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/service"
	"kernos/daemon"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/transport/unix"
)

// A pause is the time between the end of a daemon and its next beginning, in which its state
// can be replaced.
type pause struct {
	*server.Daemon
	daemon unix.Info // the PID is 0 if no daemon runs
	begun  bool
}

// findPause finds the daemon that serves a home.
func findPause(home daemon.Home) *pause {
	d, err := server.DaemonOf(home)
	p := &pause{Daemon: d}
	if err != nil {
		return p // no daemon can be running then
	}
	if info, running := d.Inspect(); running && !info.Stopping {
		p.daemon = info
	}
	return p
}

// Restart ends the daemon of a home, and starts it again as it was started; one that isn't running is started.
func Restart(ctx context.Context, home daemon.Home, report io.Writer) error {
	p := findPause(home)
	release, err := p.begin(ctx, report)
	if err == nil {
		release()
	}
	return errors.Join(err, p.end(report))
}

// begin ends the daemon as kernos stop does, and locks its store. Clients may start another
// one at that moment, which is ended too.
func (p *pause) begin(ctx context.Context, report io.Writer) (release func(), err error) {
	said := ""
	err = server.Retry(ctx, server.EndTime(), func(context.Context) (again bool, err error) {
		p.begun = true
		said, err = p.Stop(ctx, server.EndTime())
		if err == nil && p.Service().Installed() {
			err = p.Service().Stop(ctx) // until end, a connection doesn't start it
		}
		if err == nil {
			release, err = pebble.Lock(p.Store())
			again = errors.Is(err, store.ErrInUse)
		}
		return again, err
	})
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was changed", err)
	}
	fmt.Fprintln(report, said)
	return release, nil
}

// end starts the daemon again, if it was ended, and reports it, even if the command was
// interrupted.
func (p *pause) end(report io.Writer) error {
	if !p.begun {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), server.EndTime()+server.StartTime())
	defer cancel()
	how := "with the settings that it had"
	switch {
	case p.daemon.PID == 0:
		how = "with the settings of the last kernos serve"
	case len(p.daemon.Args) == 0:
		how = "with the settings of the last kernos serve, since it is not known which ones it had"
	case !slices.Contains(p.daemon.Args, server.DetachedFlag):
		how = "in the background now, " + how
	}
	err := server.Retry(ctx, server.EndTime(), func(context.Context) (again bool, err error) {
		if p.HasEnded(p.daemon.PID, true) {
			return false, nil
		}
		return true, fmt.Errorf("the daemon (process %d) is still finishing what runs, and was not started again; kernos serve starts it", p.daemon.PID)
	})
	if err != nil {
		return err
	}
	if s := p.Service(); s.Installed() {
		return p.endService(ctx, s, report)
	}
	c, err := p.again()
	if err != nil {
		return err
	}
	switch text, _, err := p.Launch(ctx, c); {
	case errors.Is(err, server.ErrTaken):
		how = "with the settings of the command that started it first"
	case err != nil && text != "":
		return fmt.Errorf("the daemon did not start again: %s; kernos serve starts it", text)
	case err != nil:
		return fmt.Errorf("the daemon did not start again: %w; kernos serve starts it", err)
	}
	now, _ := unix.Inspect(p.Socket)
	fmt.Fprintf(report, "the daemon runs again (process %d), %s\n", now.PID, how)
	return nil
}

// endService starts the service again.
func (p *pause) endService(ctx context.Context, s *service.Service, report io.Writer) error {
	conn, err := p.ConnectOrStart(ctx)
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		return fmt.Errorf("the daemon did not start again: %w", err)
	}
	now, _ := unix.Inspect(p.Socket)
	fmt.Fprintf(report, "the daemon runs again (process %d), as the service %s\n", now.PID, s.Name)
	return nil
}

// again returns the command that starts a daemon as the previous one was started: as clients
// start it, if the previous one didn't record how that was.
func (p *pause) again() (*exec.Cmd, error) {
	c, err := p.Command()
	if err != nil {
		return nil, err
	}
	if len(p.daemon.Args) > 0 {
		c.Args = append(c.Args[:1], p.daemon.Args...)
		if !slices.Contains(p.daemon.Args, server.DetachedFlag) {
			c.Args = append(c.Args, server.DetachedFlag)
		}
		c.Dir = p.daemon.Dir
		c.Env = append(c.Env, p.daemon.Env...)
	}
	return c, nil
}
