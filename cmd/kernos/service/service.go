// Package service makes the daemon of a home a service of its user, which systemd (Linux) or launchd (macOS) starts at
// login, restarts when it fails, and stops. It writes the units, and speaks to the service manager through its command,
// systemctl or launchctl.
//
//	s := service.Of(home)
//	err := s.Install(ctx, facts)  // writes the units
//	err = s.Enable(ctx)           // starts the service, now and at login
//	err = s.Start(ctx)            // when it isn't running
//
// It also renders the units of a server, which packages install; see [Packaged].
package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/internal/durable"
	"kernos/internal/exit"
	"kernos/transport/unix"
)

// A Service is the daemon of a home as a service of its user, whether or not it is installed.
type Service struct {
	// Name is what the service manager calls it: kernos for the home that a command has by default, and kernos-NAME for others.
	Name    string
	manager manager
}

// A manager is a service manager.
type manager interface {
	name() string

	// paths are the files that make a service; none if the manager can't be used. The first one decides whether the
	// service is installed. files are these with their contents.
	paths() []string
	files(Facts) []file

	// available returns why the manager can't be used here and now, or nil.
	available(context.Context) error

	// enable takes up the files that were written, and starts the service, now and at login. disable is the opposite; the files are there in
	// both cases. forget is called when they are gone.
	enable(context.Context) error
	disable(context.Context) error
	forget(context.Context) error

	start(context.Context) error
	stop(context.Context) error
	status(context.Context) (state, error)

	// logs returns the command that shows the last lines of the log, and with follow those that come.
	logs(lines int, follow bool) (program string, args []string)
}

// A file is one that makes a service.
type file struct{ path, text string }

// A state is how the manager of a service sees it.
type state struct {
	Enabled   bool   // it starts at login
	Active    string // active, inactive, failed …
	Listening bool   // a connection starts it
	PID       int    // 0 if it doesn't run
	Stays     bool   // it runs also while its user isn't logged in
	Text      string // what the service reports, or why it failed
}

// Of returns the service of a home.
func Of(home daemon.Home) *Service {
	name := "kernos"
	if !settings.IsDefault(home) {
		name += "-" + unix.Name(home.Dir, string(home.Origin))
	}
	return named(name, home, runtime.GOOS)
}

// named returns the service of this name, on an operating system.
func named(name string, home daemon.Home, system string) *Service {
	s := &Service{Name: name}
	switch system {
	case "linux":
		s.manager = &systemd{service: name, dir: unitDirectory()}
	case "darwin":
		s.manager = &launchd{service: name, dir: agentDirectory(), log: filepath.Join(home.State(), "log")}
	default:
		s.manager = &none{system: system}
	}
	return s
}

// Manager returns what the service manager is called.
func (s *Service) Manager() string { return s.manager.name() }

// Files returns the files that make the service.
func (s *Service) Files() []string { return s.manager.paths() }

// Installed reports whether the service is installed.
func (s *Service) Installed() bool {
	files := s.Files()
	if len(files) == 0 {
		return false
	}
	text, err := os.ReadFile(files[0])
	return err == nil && bytes.Contains(text, []byte(written))
}

// Listens reports whether the service is installed and its manager listens on its socket, so that a connection starts it.
func (s *Service) Listens() bool { return s.Manager() == "systemd" && s.Installed() }

// ErrNotInstalled is the error for a service that isn't there.
var ErrNotInstalled = errors.New("no service is installed for this home; kernos service install makes one")

// An OtherSettings error reports a service that is installed with settings other than those that were given.
type OtherSettings struct{ Path, Has, Wants string }

func (e *OtherSettings) Error() string {
	return fmt.Sprintf("a service is installed with other settings: %s has %s, and this command would write %s; --replace does so, and kernos service uninstall removes the service",
		e.Path, e.Has, e.Wants)
}

// written begins each file that this package writes for a user. A file without it belongs to its user.
const written = "Written by kernos service install"

// Available returns why no service can be installed here and now, or nil.
func (s *Service) Available(ctx context.Context) error { return s.manager.available(ctx) }

// Install writes the files of a service that aren't as facts would make them, and returns their paths. With replace, it replaces
// those of a service with other settings; without it, these are an *[OtherSettings] error.
func (s *Service) Install(facts Facts, replace bool) (paths []string, err error) {
	if err := facts.check(); err != nil {
		return nil, &exit.Error{Status: exit.Usage, Cause: err}
	}
	var changed []file
	for _, f := range s.manager.files(facts) {
		now, err := os.ReadFile(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case string(now) == f.text:
			continue
		case !bytes.Contains(now, []byte(written)):
			return nil, fmt.Errorf("%s was not written by kernos service install; move it away first", f.path)
		case !replace:
			has, wants := difference(string(now), f.text)
			return nil, &OtherSettings{f.path, has, wants}
		}
		changed = append(changed, f)
	}
	for _, f := range changed {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
			return paths, err
		}
		if err := durable.WriteFile(f.path, []byte(f.text)); err != nil {
			return paths, err
		}
		paths = append(paths, f.path)
	}
	return paths, nil
}

// difference returns the first line that differs between two texts, in each of them.
func difference(a, b string) (inA, inB string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		inA, inB = "nothing more", "nothing more"
		if i < len(as) {
			inA = strings.TrimSpace(as[i])
		}
		if i < len(bs) {
			inB = strings.TrimSpace(bs[i])
		}
		if inA != inB {
			break
		}
	}
	return inA, inB
}

// Remove removes files of the service, and makes its manager forget it.
func (s *Service) Remove(ctx context.Context, paths []string) (err error) {
	for _, path := range paths {
		if e := os.Remove(path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, s.manager.forget(ctx))
}

// Enable starts the service that was installed, now and at login.
func (s *Service) Enable(ctx context.Context) error { return s.manager.enable(ctx) }

// Disable stops the service, and keeps it from starting at login.
func (s *Service) Disable(ctx context.Context) error { return s.manager.disable(ctx) }

// Start starts the service, and waits until it serves if its manager knows that.
func (s *Service) Start(ctx context.Context) error { return s.explain(s.manager.start(ctx)) }

// Stop stops the service. Until Start, a connection doesn't start it.
func (s *Service) Stop(ctx context.Context) error { return s.explain(s.manager.stop(ctx)) }

func (s *Service) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the service %s: %w; kernos service status and kernos service logs show why, and kernos service uninstall removes it", s.Name, err)
}

// A Status is how a service is doing.
type Status struct {
	Installed bool     `json:"installed"`
	Name      string   `json:"name"`
	Manager   string   `json:"manager"`
	Files     []string `json:"files"`
	Enabled   bool     `json:"enabled"`        // it starts at login
	State     string   `json:"state"`          // in the words of the manager: active, inactive, failed
	Listening bool     `json:"listening"`      // a connection starts it
	PID       int      `json:"pid,omitempty"`  // of the daemon, if it runs
	Text      string   `json:"text,omitempty"` // what the service reports of itself
	Stays     bool     `json:"stays"`          // it runs also while its user isn't logged in
}

// Status asks the manager how the service is doing.
func (s *Service) Status(ctx context.Context) (Status, error) {
	status := Status{Installed: s.Installed(), Name: s.Name, Manager: s.Manager(), Files: s.Files()}
	if !status.Installed {
		return status, nil
	}
	now, err := s.manager.status(ctx)
	status.Enabled, status.State, status.Listening, status.PID, status.Text = now.Enabled, now.Active, now.Listening, now.PID, now.Text
	status.Stays = now.Stays
	return status, err
}

// Logs returns the command that shows the last lines of the log, and with follow those that come.
func (s *Service) Logs(lines int, follow bool) (program string, args []string) {
	return s.manager.logs(lines, follow)
}

// none is the manager of a system that has none that this package knows.
type none struct{ system string }

func (n *none) name() string       { return "" }
func (n *none) paths() []string    { return nil }
func (n *none) files(Facts) []file { return nil }
func (n *none) available(context.Context) error {
	return fmt.Errorf("kernos service knows systemd (Linux) and launchd (macOS), and this is %s: let its own service manager run kernos serve", n.system)
}
func (n *none) enable(ctx context.Context) error          { return n.available(ctx) }
func (n *none) disable(ctx context.Context) error         { return n.available(ctx) }
func (n *none) forget(ctx context.Context) error          { return n.available(ctx) }
func (n *none) start(ctx context.Context) error           { return n.available(ctx) }
func (n *none) stop(ctx context.Context) error            { return n.available(ctx) }
func (n *none) status(ctx context.Context) (state, error) { return state{}, n.available(ctx) }
func (n *none) logs(int, bool) (string, []string)         { return "", nil }
