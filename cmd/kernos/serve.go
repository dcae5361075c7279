package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kernos/capability/crypto"
	"kernos/cmd/kernos/exit"
	"kernos/kernel"
	"kernos/transport/rpc"
	"kernos/transport/unix"
)

// serveSettings are the settings of a daemon.
type serveSettings struct {
	authKey        string
	maxConnections count
	inFlight       count
	inFlightAll    count
	idle           age
	stall          age
	lineTime       age
	frameRate      rate
	timeout        age
	grace          age
	keep           retention
	outside        outsideSettings
	listen         listenSettings
	detached       bool
}

func serveCommand() *cobra.Command {
	s := serveSettings{
		maxConnections: unix.DefaultMaxConnections,
		inFlight:       kernel.DefaultInFlight,
		inFlightAll:    kernel.DefaultInFlightAll,
		stall:          age(unix.DefaultStall),
		lineTime:       age(unix.DefaultLine),
		timeout:        age(kernel.DefaultTimeout),
		grace:          age(unix.DefaultGrace),
	}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve this machine's programs over a socket, until stopped",
		Long: `Serve the programs of this user over a unix socket: messages in and answers out, one
JSON object a line, over any number of connections. kernos pipe and all other commands
find the socket by themselves, and kernos pipe starts this command in the background if
it is not running; in the foreground it says what it does.

One process serves an origin of a home directory; a second one says who does, and
leaves with status 1. All messages are recorded, for kernos log, graph, search and
replay. The log of the daemon is in log/kernos.log beside the state, JSON, one object a
line.

HTTP and WebSockets are served at 127.0.0.1:7420 (--addr) too, to whoever sends the token
that kernos token prints, and on a second socket beside the first, where no token is
needed. An address that other machines reach is served with TLS and a token, or not at
all unless a flag says so in as many words. Web pages are let in from the server's own
origin and those of --allow-origin. If something else has the default address, the
sockets are all there is.

With --auth-key only those are served who sign with one of the keys, as kernos pipe,
kernos call and all other commands do by the ssh-agent. A token is no signature, so no
TCP address is served then, unless a flag says so in as many words.

kernos stop, Syscall.Shutdown, an interrupt or SIGTERM end it: it accepts nothing new,
finishes what runs, for as long as --grace says, and leaves with status 0. A signal that
comes while it does so ends it at once.

Each setting can be said by a flag, by a variable (--line-time is KERNOS_LINE_TIME), or
in config.yaml in the home directory (line-time: 30s), in this order.`,
		Example: `  kernos serve
  kernos serve --auth-key ~/.ssh/authorized_keys
  kernos serve --addr 0.0.0.0:7420 --allow-host agent.example.com --tls-cert cert.pem --tls-key key.pem
  kernos serve --max-connections 100 --idle 1h --frame-rate 1000
  KERNOS_JOURNAL_AGE=30d kernos serve`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := completeSettings(c); err != nil {
				return err
			}
			if s.timeout == 0 || s.lineTime == 0 || s.stall == 0 {
				return errors.New("--timeout, --line-time and --stall must be more than 0")
			}
			if err := s.outside.check(); err != nil {
				return err
			}
			if err := s.listen.check(s.authKey != ""); err != nil {
				return err
			}
			return serve(c.Context(), &s, c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&s.authKey, "auth-key", "", "want a signature of one of the public keys in this `FILE`, which is in the format of authorized_keys")
	f.Var(&s.maxConnections, "max-connections", "how many connections are served at once")
	f.Var(&s.inFlight, "in-flight", "how many slow requests of one connection run at once; a WebSocket may have "+strconv.Itoa(rpc.DefaultSubscriptions)+", one for each of its streams")
	f.Var(&s.inFlightAll, "in-flight-all", "how many slow requests of all connections run at once, but for watches")
	f.Var(&s.stall, "stall", "close connections that take nothing of what is sent to them for so long")
	f.Var(&s.idle, "idle", "close connections that have been silent for so long; 0 is never, and two minutes between HTTP requests")
	f.Var(&s.lineTime, "line-time", "how long a connection may take for one line")
	f.Var(&s.frameRate, "frame-rate", "how many messages a second are read from one connection; 0 is any number")
	f.Var(&s.timeout, "timeout", "how long one call may take")
	f.Var(&s.grace, "grace", "how long what runs may take to finish when the daemon is stopped")
	s.keep.add(c)
	s.outside.add(c)
	s.listen.add(c)
	f.BoolVar(&s.detached, "detached", false, "say only when it serves, or why it does not")
	_ = f.MarkHidden("detached")
	f.StringVar(&s.outside.from, "from", "", "the directory if --directory is not given")
	_ = f.MarkHidden("from")
	return c
}

// serve runs a daemon to its end. People, who started it, are told what it does; if a
// client has, it is told what it needs to know.
func serve(ctx context.Context, s *serveSettings, people io.Writer) error {
	syscall.Umask(0o077)           // nothing that a daemon makes is for others
	signal.Ignore(syscall.SIGPIPE) // a connection that is gone says so when it is written to
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)

	hardened := crypto.Harden()
	d, err := newDaemon(s, people)
	if err != nil {
		if _, running := errors.AsType[*unix.Running](err); running && s.detached {
			return &exit.Error{Status: exit.Taken, Cause: err}
		}
		return exit.Wrap(err)
	}
	if hardened != nil {
		d.log.Warn("a core dump of this process could hold secrets", "error", hardened)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d.shutdown = func() { stop(errAsked) }
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case s := <-signals:
			stop(fmt.Errorf("%v", s))
		case <-ctx.Done(): // a client has asked for it: the first signal insists
		case <-finished:
			return
		}
		select {
		case <-signals:
			os.Exit(exit.Interrupted)
		case <-finished:
		}
	}()
	if s.detached {
		fmt.Fprintln(people, readiness)
	} else {
		d.introduce(people)
	}
	err = d.run(ctx)
	if !s.detached && err == nil {
		fmt.Fprintf(people, "kernos: stopped (%v)\n", context.Cause(ctx))
	}
	return exit.Wrap(err)
}

// errAsked is the reason for an end that a client has asked for.
var errAsked = errors.New("asked by a client")

// options are the settings of the server.
func (s *serveSettings) options() *unix.Options {
	return &unix.Options{
		MaxConnections: int(s.maxConnections),
		Idle:           time.Duration(s.idle),
		Stall:          time.Duration(s.stall),
		Line:           time.Duration(s.lineTime),
		FrameRate:      float64(s.frameRate),
		Grace:          time.Duration(s.grace),
	}
}
