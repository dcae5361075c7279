package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// systemd is the manager of the services of this user on Linux.
type systemd struct {
	service string // the name of the units, without their ends
	dir     string // where the units are; "" if this user has no home directory
}

// unitDirectory returns where systemd looks for the units of this user; "" if that is unknown.
func unitDirectory() string {
	if config := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(config) {
		return filepath.Join(config, "systemd", "user")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".config", "systemd", "user")
}

func (s *systemd) name() string { return "systemd" }

func (s *systemd) paths() []string {
	if s.dir == "" {
		return nil
	}
	return []string{filepath.Join(s.dir, s.service+".service"), filepath.Join(s.dir, s.service+".socket")}
}

func (s *systemd) files(facts Facts) []file {
	facts.Name = s.service
	paths := s.paths()
	return []file{{paths[0], facts.render("kernos.service")}, {paths[1], facts.render("kernos.socket")}}
}

// units are the names of the service and of its socket.
func (s *systemd) units() []string { return []string{s.service + ".service", s.service + ".socket"} }

func (s *systemd) available(ctx context.Context) error {
	if s.dir == "" {
		return errors.New("this user has no home directory, in which systemd looks for units: set HOME")
	}
	if os.Getenv("XDG_RUNTIME_DIR") == "" {
		return noSession("XDG_RUNTIME_DIR isn't set")
	}
	_, err := s.systemctl(ctx, "show-environment")
	return err
}

// noSession is the error for a user for whom no systemd runs.
func noSession(reason string) error {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Errorf("systemd has no session of this user (%s): loginctl enable-linger %s makes one that stays; "+
		"where it runs already, as after su, use it with export XDG_RUNTIME_DIR=/run/user/%d", reason, name, os.Getuid())
}

// systemctl runs systemctl for this user's systemd.
func (s *systemd) systemctl(ctx context.Context, args ...string) (printed string, err error) {
	var env []string
	if os.Getenv("XDG_RUNTIME_DIR") == "" { // as in a cron job
		env = append(env, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", os.Getuid()))
	}
	printed, err = run(ctx, env, "systemctl", append([]string{"--user", "--no-pager", "--no-ask-password"}, args...)...)
	if e, ok := errors.AsType[*commandError](err); ok && strings.Contains(e.said, "connect to bus") {
		return printed, noSession(e.said)
	}
	return printed, err
}

func (s *systemd) enable(ctx context.Context) error {
	if _, err := s.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if _, err := s.systemctl(ctx, append([]string{"enable"}, s.units()...)...); err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *systemd) disable(ctx context.Context) error {
	_, err := s.systemctl(ctx, append([]string{"disable", "--now"}, s.units()...)...)
	return err
}

func (s *systemd) forget(ctx context.Context) error {
	_, err := s.systemctl(ctx, "daemon-reload")
	s.resetFailed(ctx)
	return err
}

// resetFailed makes systemd forget that the units have failed, which would keep it from starting them. It is an error to
// forget that of units that it doesn't know.
func (s *systemd) resetFailed(ctx context.Context) {
	_, _ = s.systemctl(ctx, append([]string{"reset-failed"}, s.units()...)...)
}

func (s *systemd) start(ctx context.Context) error {
	s.resetFailed(ctx)
	_, err := s.systemctl(ctx, append([]string{"start"}, s.units()...)...)
	return err
}

func (s *systemd) stop(ctx context.Context) error {
	_, err := s.systemctl(ctx, append([]string{"stop"}, s.units()...)...)
	return err
}

func (s *systemd) status(ctx context.Context) (state, error) {
	service, err := s.show(ctx, s.service+".service")
	if err != nil {
		return state{}, err
	}
	socket, err := s.show(ctx, s.service+".socket")
	if err != nil {
		return state{}, err
	}
	now := state{Enabled: service["UnitFileState"] == "enabled", Active: service["ActiveState"], Listening: socket["ActiveState"] == "active"}
	now.Stays = lingers()
	now.PID, _ = strconv.Atoi(service["MainPID"]) // 0 if none runs
	if now.PID != 0 {
		now.Text = service["StatusText"]
	} else if result := service["Result"]; result != "" && result != "success" {
		now.Text = "the last run ended with " + result
	}
	return now, nil
}

// show returns properties of a unit.
func (s *systemd) show(ctx context.Context, unit string) (map[string]string, error) {
	printed, err := s.systemctl(ctx, "show", "--property=ActiveState,UnitFileState,MainPID,StatusText,Result", unit)
	properties := make(map[string]string)
	for line := range strings.Lines(printed) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		properties[name] = value
	}
	return properties, err
}

// lingers reports whether systemd keeps the services of this user running when the user isn't logged in.
func lingers() bool {
	u, err := user.Current()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/var/lib/systemd/linger", u.Username))
	return err == nil
}

func (s *systemd) logs(lines int, follow bool) (program string, args []string) {
	args = []string{"--user", "--unit", s.service + ".service", "--output", "cat", "--no-pager", "--lines", strconv.Itoa(lines)}
	if follow {
		args = append(args, "--follow")
	}
	return "journalctl", args
}
