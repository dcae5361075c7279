package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/service"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

func serviceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "service",
		Short: "Keep the daemon running: as a service of this user, by systemd or launchd",
		Long: `Without a service, a command that needs a daemon starts one, and it runs until the machine
stops. A service also starts at login, so that schedules run, and again when it fails.

On Linux it is a systemd user unit with a socket: the first connection starts the daemon,
systemd restarts one whose kernel doesn't answer any more, and what it starts gains no
rights. On macOS it is a launchd agent. Commands find it as they find any daemon, and
start the service where they would have started a daemon of their own.

docs/SERVICE.md has more, and how to run Kernos on a server.`,
		Example: "  kernos service install\n  kernos service status\n  kernos service logs --follow\n  kernos service uninstall",
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(serviceInstallCommand(), serviceUninstallCommand(), serviceStatusCommand(), serviceLogsCommand())
	for _, own := range c.Commands() {
		concernsThisMachine(own, true)
	}
	return c
}

func serviceInstallCommand() *cobra.Command {
	var s *settings.Serve
	var replace bool
	c := &cobra.Command{
		Use:   "install",
		Short: "Install the daemon as a service of this user, and start it",
		Long: `Write the files of the service, end a daemon that is running, and start the service. It has
the settings of config.yaml and of the flags, which are the flags of kernos serve;
variables of the environment aren't settings of the service. The folder of the state
(KERNOS_HOME), the origin and the PATH are those of this command.

Flags with a credential are refused, since other users may read the files: credentials
belong in config.yaml.

A service that is installed with other settings is replaced with --replace only.`,
		Example: "  kernos service install\n  kernos service install --replace --journal-age 30d --addr 127.0.0.1:8000",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			args, err := s.ForService(c, version)
			if err != nil {
				return err
			}
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				return exit.Wrap(installService(ctx, s, args, replace, c.OutOrStdout(), c.ErrOrStderr()))
			})
		},
	}
	s = settings.AddServeFlags(c)
	c.Flags().BoolVar(&replace, "replace", false, "replace a service with other settings")
	c.SetUsageFunc(func(c *cobra.Command) error { return settings.Usage(c, settings.ServeGroups, "Other") })
	return c
}

// installService installs the service of this user's home, and reports what it does.
func installService(ctx context.Context, s *settings.Serve, args []string, replace bool, report, notes io.Writer) error {
	settings.WarnOfSettings(notes)
	home, err := settings.UsableHome()
	if err != nil {
		return err
	}
	d, err := server.DaemonOf(home)
	if err != nil {
		return err
	}
	sv := d.Service()
	if err := sv.Available(ctx); err != nil {
		return err
	}
	facts := service.Facts{Arguments: args, Home: home}
	if facts.Socket, err = home.Socket(); err != nil {
		return err
	}
	var agent string
	if facts.Environment, agent, err = settings.ServiceEnvironment(home); err != nil {
		return err
	}
	if facts.Program, err = ownProgram(); err != nil {
		return err
	}
	before, err := sv.Status(ctx)
	if err != nil {
		return err
	}
	paths, err := sv.Install(facts, replace)
	for _, path := range paths {
		fmt.Fprintf(report, "wrote %s\n", path)
	}
	if err == nil {
		lost := s.GivenToLast(home)
		err = beginService(ctx, d, before, len(paths) > 0, report)
		if err == nil && !before.Installed && len(lost) > 0 {
			fmt.Fprintf(notes, "kernos: the last daemon was given %s, and the service isn't: kernos service install --replace gives them to it, and config.yaml in %s is for good\n", strings.Join(lost, ", "), home.Dir)
		}
	}
	if err != nil && !before.Installed {
		return errors.Join(fmt.Errorf("%w; nothing is installed", err), undo(ctx, sv, paths))
	}
	if err == nil && agent != "" && sv.Manager() == "systemd" {
		fmt.Fprintf(notes, "kernos: the ssh-agent at %s is of this login, so the service doesn't use it: docs/SERVICE.md has what to do about secrets that are sealed with its keys\n", agent)
	}
	return err
}

// undo removes what an installation that has failed has left.
func undo(ctx context.Context, sv *service.Service, paths []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), server.EndTime())
	defer cancel()
	_ = sv.Disable(ctx) // it may not have come to that
	return sv.Remove(ctx, paths)
}

// beginService starts the service, whose files are there, in place of the daemon that is running. Before is how the
// service was, and changed states that its files were written.
func beginService(ctx context.Context, d *server.Daemon, before service.Status, changed bool, report io.Writer) error {
	sv := d.Service()
	info, running := d.Inspect()
	if running && (changed || info.PID != before.PID) {
		said, err := d.Stop(ctx, server.EndTime())
		if err != nil {
			return err
		}
		fmt.Fprintln(report, said)
	}
	if before.Installed && changed {
		if err := sv.Stop(ctx); err != nil {
			return err
		}
	}
	if !changed {
		fmt.Fprintln(report, "the service was installed already, with these settings")
	}
	if err := sv.Enable(ctx); err != nil {
		return err
	}
	conn, err := d.ConnectOrStart(ctx)
	if err != nil {
		return err
	}
	_ = conn.Close()
	now, err := sv.Status(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(report, "the service %s runs (process %d): %s starts it at login, when a command needs it, and when it has failed\n", sv.Name, now.PID, sv.Manager())
	if sv.Manager() == "systemd" && !now.Stays {
		fmt.Fprintln(report, "it ends when you log out; loginctl enable-linger keeps it running, and starts it with the machine")
	}
	return nil
}

// ownProgram returns the path of this program for a service: the one on the PATH if that leads to it, which stays the same when the
// program is upgraded.
func ownProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	this, err := os.Stat(self)
	if err != nil {
		return "", err
	}
	if path, err := service.Program("kernos"); err == nil {
		if named, err := os.Stat(path); err == nil && os.SameFile(this, named) {
			return path, nil
		}
	}
	if strings.Contains(self, string(filepath.Separator)+"go-build") {
		return "", errors.New("go run removes the program when it ends, so no service can start it: go install ./cmd/kernos makes one that stays")
	}
	return self, nil
}

func serviceUninstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service, and remove its files",
		Long: `Stop the service, and remove its files. The state and config.yaml stay, and commands that need a
daemon start one again, with the settings of the service.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				sv, err := installedService()
				if err != nil {
					return err
				}
				if err := sv.Disable(ctx); err != nil {
					return exit.Wrap(err)
				}
				fmt.Fprintf(c.OutOrStdout(), "the service %s has stopped, and doesn't start again\n", sv.Name)
				if err := sv.Remove(ctx, sv.Files()); err != nil {
					return exit.Wrap(err)
				}
				for _, path := range sv.Files() {
					fmt.Fprintf(c.OutOrStdout(), "removed %s\n", path)
				}
				return nil
			})
		},
	}
}

// installedService returns the service of this user's home; an error if it isn't installed.
func installedService() (*service.Service, error) {
	home, err := settings.Home()
	if err != nil {
		return nil, err
	}
	sv := service.Of(home)
	if !sv.Installed() {
		return nil, exit.Wrap(service.ErrNotInstalled)
	}
	return sv, nil
}

func serviceStatusCommand() *cobra.Command {
	return prints(&cobra.Command{
		Use:   "status",
		Short: "Show whether the service is installed, and how its manager sees it",
		Long: `Show whether the service is installed and runs, whether it starts at login, and its files.
kernos status shows how the daemon itself is doing. The status is 4 if the service isn't
installed, or if it neither runs nor starts when a command needs it.`,
		Example: "  kernos service status\n  kernos service status --json",
		Args:    noArguments,
	}, "text", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		home, err := settings.Home()
		if err != nil {
			return err
		}
		now, err := service.Of(home).Status(c.Context())
		if err != nil {
			return exit.Wrap(err)
		}
		if err := writeValue(c.Context(), s, o, now, func() error { return s.Write(describeService(now)) }); err != nil {
			return err
		}
		if now.PID == 0 && !now.Listening {
			return &exit.Error{Status: exit.Unreachable}
		}
		return nil
	})
}

// describeService describes how a service is doing.
func describeService(now service.Status) string {
	if !now.Installed {
		return service.ErrNotInstalled.Error() + "\n"
	}
	var b strings.Builder
	row := func(name, text string) { fmt.Fprintf(&b, "  %-9s %s\n", name, text) }
	fmt.Fprintf(&b, "the service %s of %s is %s\n", now.Name, now.Manager, now.State)
	switch {
	case now.PID != 0:
		row("process", strconv.Itoa(now.PID))
	case now.Listening:
		row("process", "none; the next command starts it")
	}
	if now.Text != "" {
		row("reports", now.Text)
	}
	starts := "at login"
	switch {
	case !now.Enabled:
		starts = "only when a command needs it"
	case now.Stays:
		starts = "with the machine"
	}
	row("starts", starts)
	for _, path := range now.Files {
		row("file", path)
	}
	return b.String()
}

func serviceLogsCommand() *cobra.Command {
	lines, follow := 100, false
	c := &cobra.Command{
		Use:   "logs",
		Short: "Show what the service has logged",
		Long: `Show the last lines that the service has logged, from journalctl, or on macOS from the files
beside the state. All of the daemon's log is also in log/kernos.log
beside the state: JSON, one object per line.`,
		Example: "  kernos service logs -n 20\n  kernos service logs --follow",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			sv, err := installedService()
			if err != nil {
				return err
			}
			if lines < 1 {
				return fmt.Errorf("--lines: expected a whole number, at least 1, got %d", lines)
			}
			name, args := sv.Logs(lines, follow)
			program, err := service.Program(name)
			if err != nil {
				return exit.Wrap(err)
			}
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				shows := exec.CommandContext(ctx, program, slices.Clone(args)...)
				shows.Stdout, shows.Stderr = c.OutOrStdout(), c.ErrOrStderr()
				return exit.Wrap(shows.Run())
			})
		},
	}
	c.Flags().IntVarP(&lines, "lines", "n", lines, "show the last `N` lines")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "continue with what is logged from now on, until interrupted")
	return c
}
