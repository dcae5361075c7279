package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// launchd is the manager of the services of this user on macOS.
type launchd struct {
	service string // the label
	dir     string // where the property lists are; "" if this user has no home directory
	log     string // the folder of the daemon's log
}

// agentDirectory returns where launchd looks for the services of this user; "" if that is unknown.
func agentDirectory() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, "Library", "LaunchAgents")
}

func (l *launchd) name() string { return "launchd" }

func (l *launchd) paths() []string {
	if l.dir == "" {
		return nil
	}
	return []string{l.path()}
}

func (l *launchd) files(facts Facts) []file {
	facts.Name, facts.Log = l.service, l.errors()
	return []file{{l.path(), facts.render("kernos.plist")}}
}

func (l *launchd) path() string { return filepath.Join(l.dir, l.service+".plist") }

// errors is the file with what the daemon writes to its standard error.
func (l *launchd) errors() string { return filepath.Join(l.log, "service.log") }

// domain and target name the session of this user, and the service in it.
func (l *launchd) domain() string { return "gui/" + strconv.Itoa(os.Getuid()) }
func (l *launchd) target() string { return l.domain() + "/" + l.service }

func (l *launchd) launchctl(ctx context.Context, args ...string) (printed string, err error) {
	return run(ctx, nil, "launchctl", args...)
}

func (l *launchd) available(ctx context.Context) error {
	if l.dir == "" {
		return errors.New("this user has no home directory, in which launchd looks for services: set HOME")
	}
	if _, err := l.launchctl(ctx, "print", l.domain()); err != nil {
		return fmt.Errorf("launchd has no session of this user: log in at the screen of this machine once (%w)", err)
	}
	return nil
}

func (l *launchd) enable(ctx context.Context) error {
	if err := os.MkdirAll(l.log, 0o700); err != nil { // launchd makes the file, and not its folder
		return err
	}
	if now, err := l.status(ctx); err == nil && now.Active != "" { // with the settings of before
		if err := l.disable(ctx); err != nil {
			return err
		}
	}
	_, err := l.launchctl(ctx, "bootstrap", l.domain(), l.path())
	return err
}

func (l *launchd) disable(ctx context.Context) error {
	_, err := l.launchctl(ctx, "bootout", l.target())
	return err
}

func (l *launchd) forget(context.Context) error { return nil }

func (l *launchd) start(ctx context.Context) error {
	now, err := l.status(ctx)
	switch {
	case err != nil:
		return err
	case now.Active == "": // it was booted out
		return l.enable(ctx)
	case now.PID != 0:
		return nil
	}
	_, err = l.launchctl(ctx, "kickstart", l.target())
	return err
}

func (l *launchd) stop(ctx context.Context) error {
	if now, err := l.status(ctx); err != nil || now.PID == 0 {
		return err
	}
	_, err := l.launchctl(ctx, "kill", "SIGTERM", l.target())
	return err
}

// notFound is the status of launchctl print for a service that launchd doesn't have.
const notFound = 113

func (l *launchd) status(ctx context.Context) (now state, err error) {
	printed, err := l.launchctl(ctx, "print", l.target())
	if e, ok := errors.AsType[*commandError](err); ok && e.status == notFound {
		return now, nil
	}
	properties := make(map[string]string)
	for line := range strings.Lines(printed) {
		line, own := strings.CutPrefix(line, "\t") // what is deeper isn't of the service itself
		name, value, found := strings.Cut(strings.TrimRight(line, "\n"), " = ")
		if own && found && !strings.HasPrefix(line, "\t") {
			properties[name] = value
		}
	}
	now.Active, now.Enabled = properties["state"], err == nil
	now.PID, _ = strconv.Atoi(properties["pid"]) // 0 if none runs
	if code := properties["last exit code"]; now.PID == 0 && code != "" && code != "0" && code != "(never exited)" {
		now.Text = "the last run ended with " + code
	}
	return now, err
}

func (l *launchd) logs(lines int, follow bool) (program string, args []string) {
	args = []string{"-n", strconv.Itoa(lines)}
	if follow {
		args = append(args, "-F")
	}
	return "tail", append(args, l.errors(), filepath.Join(l.log, "kernos.log"))
}
