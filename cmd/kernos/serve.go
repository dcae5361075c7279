package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"kernos/capability/crypto"
	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/logfile"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/transport/unix"
)

func serveCommand() *cobra.Command {
	var s *settings.Serve
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve this machine's programs over a socket, until stopped",
		Long: `Serve the programs of this user over a unix socket: messages in and answers out, one
JSON object per line, over any number of connections. kernos pipe and all other commands
find the socket by themselves, and kernos pipe starts this command in the background if
it is not running. In the foreground it prints what it serves.

One process serves an origin of a home directory; a second one reports which process
does, and exits with status 1. All messages are recorded, for kernos log, graph, search
and replay. The log of the daemon is log/kernos.log beside the state: JSON, one object
per line.

HTTP and WebSockets are served at 127.0.0.1:7420 (--addr) too, for callers that send the
token that kernos token prints, and on a second socket beside the first, where no token
is needed. An address that other machines can reach is served with TLS and a token only,
unless an --insecure flag allows less. Web pages are let in from the server's own origin
and those of --allow-origin. If another program uses the default address, only the
sockets are served.

With --auth-key, clients must sign with one of the keys, as kernos pipe, kernos call and
all other commands do with ssh-agent. A token is not a signature, so no TCP address is
served then, unless --insecure-listen-without-signature allows it.

kernos stop, Syscall.Shutdown, an interrupt or SIGTERM end it: it accepts nothing new,
finishes running calls for up to --grace, and exits with status 0. Another signal ends it
at once.

Each setting can be given by a flag, by a variable (--line-time is KERNOS_LINE_TIME), or
in config.yaml in the home directory (line-time: 30s), in this order.`,
		Example: `  kernos serve
  kernos serve --auth-key ~/.ssh/authorized_keys
  kernos serve --addr 0.0.0.0:7420 --allow-host agent.example.com --tls-cert cert.pem --tls-key key.pem
  kernos serve --max-connections 100 --idle 1h --frame-rate 1000
  KERNOS_JOURNAL_AGE=30d kernos serve`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.Complete(c, version); err != nil {
				return err
			}
			return serve(c.Context(), s, c.ErrOrStderr())
		},
	}
	s = settings.AddServeFlags(c)
	c.SetUsageFunc(func(c *cobra.Command) error { return settings.Usage(c, settings.ServeGroups, "Other") })
	return c
}

// serve runs a daemon to its end. A person who started it is told what it does; a client that
// started it, only that it serves, or why it does not.
func serve(ctx context.Context, s *settings.Serve, stderr io.Writer) error {
	syscall.Umask(0o077)           // nothing that a daemon makes is for other users
	signal.Ignore(syscall.SIGPIPE) // writing to a connection that is gone returns an error
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)

	home, err := settings.UsableHome()
	if err != nil {
		return err
	}
	people := stderr
	if s.Detached {
		people = nil
	}
	s.Level = new(slog.LevelVar)
	log := logfile.Open(logfile.Path(home), s.Level, people)
	defer func() { _ = log.Close() }()
	s.Log = log.Logger
	if err := crypto.Harden(); err != nil {
		s.Log.Warn("a core dump of this process could hold secrets", "error", err)
	}
	s.Pebble = daemonStore
	setGarbage(storeGarbage)
	d, err := daemon.Open(&s.Options)
	if _, running := errors.AsType[*unix.Running](err); running && s.Detached {
		return &exit.Error{Status: exit.Taken, Cause: err}
	} else if err != nil {
		if !running {
			log.OnlyFile("can't start", err) // stderr gets the error anyway
		}
		return settings.Explain(err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	served := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			stop(fmt.Errorf("%v", s))
		case <-d.ShutdownRequested():
		case <-served:
			return
		}
		select {
		case <-signals: // insists
			os.Exit(exit.Interrupted)
		case <-served:
		}
	}()
	if s.Detached {
		fmt.Fprintln(stderr, connect.Ready)
	} else {
		introduce(d, s, log.Place, stderr)
	}
	idle, stopIdle := context.WithCancel(context.Background())
	var memory sync.WaitGroup
	memory.Go(func() { releaseMemory(idle, allocated, debug.FreeOSMemory) })
	debug.FreeOSMemory() // opening the store took memory that is not needed again
	err = errors.Join(d.Serve(ctx), d.Close())
	close(served)
	stopIdle()
	memory.Wait()
	if !s.Detached && err == nil {
		fmt.Fprintf(stderr, "kernos: stopped (%v)\n", cmp.Or(context.Cause(ctx), daemon.ErrShutdown))
	}
	return exit.Wrap(err)
}

// introduce prints what is served, where, and how to end it.
func introduce(d *daemon.Daemon, s *settings.Serve, logPlace string, people io.Writer) {
	r, status := d.Kernel().Registry(), d.Status()
	var modules []string
	for _, n := range r.All().Namespaces() { // kernos MODULE METHOD takes these names
		modules = append(modules, n.Name)
	}
	who := "programs of this user"
	if len(s.Socket.Keys) > 0 {
		who += " with " + terminal.Count(len(s.Socket.Keys), "key that may sign", "keys that may sign")
	}
	directory := ""
	if status.Directory != "" {
		directory = fmt.Sprintf("  directory %s (its folder os is os://, if it exists)\n", status.Directory)
	}
	page := ""
	if url, err := d.ConsoleURL(); err == nil {
		page = fmt.Sprintf("  console   %s (for one browser, within a minute; then kernos console)\n", url)
	}
	fmt.Fprintf(people, `kernos %s serves %s for %s
  process   %d
  socket    %s
  http      %s
%s  state     %s (%s, %s recorded)
%s  log       %s
  syscalls  %d: %s
kernos stop, or an interrupt, ends it.
`, version, status.Origin, who, status.PID, status.Socket, strings.Join(d.URLs()[1:], ", "), page, d.Home().State(), terminal.Bytes(status.Store.Bytes),
		terminal.Count(int(status.Store.Messages), "message", "messages"), directory, logPlace, len(r.All().Types()), strings.Join(modules, ", "))
}
