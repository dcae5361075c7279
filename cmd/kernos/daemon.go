package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/capability/lifecycle"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/kernel"
	"kernos/transport/unix"
)

// A daemon is a kernel with a socket.
type daemon struct {
	report
	settings *serveSettings
	keys     []ssh.PublicKey
	listener *unix.Listener
	web      web
	level    slog.LevelVar // of the log
	log      *slog.Logger
	logFile  *logFile
	logPlace string
	shutdown func() // begins the end; set before the daemon runs
}

// newDaemon takes the socket, and opens everything that a daemon needs. If that fails,
// everything is as before. The error is a *unix.Running if there is a daemon already.
func newDaemon(s *serveSettings, people io.Writer) (_ *daemon, err error) {
	d := &daemon{settings: s, report: report{started: time.Now()}}
	if s.authKey != "" {
		if d.keys, err = readKeys(s.authKey); err != nil {
			return nil, &exit.Error{Status: exit.Usage, Cause: err}
		}
	}
	if d.address, err = findAddress(); err != nil {
		return nil, err
	}
	if other, running := d.address.seek(); running && d.address.socket != d.address.own {
		return nil, &unix.Running{Path: d.address.socket, Info: other}
	}
	if err := makeHome(d.address.home); err != nil {
		return nil, err
	}
	info := unix.Info{
		PID: os.Getpid(), Version: version, Started: d.started.Truncate(time.Millisecond),
		Home: d.address.home, Origin: string(d.address.origin), Auth: len(d.keys) > 0,
	}
	describeStart(&info)
	for _, k := range d.keys {
		info.Keys = append(info.Keys, ssh.FingerprintSHA256(k))
	}
	if d.listener, err = unix.Listen(d.address.socket, info); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.listener.Close())
		}
	}()
	if s.detached {
		people = nil
	}
	d.log, d.logFile, d.logPlace = openLog(d.address.logFile(), &d.level, people)
	if err = d.open(); err != nil {
		slog.New(slog.NewJSONHandler(d.logFile, nil)).Error("can't start", "error", err) // people are told by the error
		return nil, errors.Join(err, d.logFile.Close())
	}
	return d, nil
}

// open opens the store and makes the kernel.
func (d *daemon) open() (err error) {
	s := d.settings
	s.outside.public = s.listen.public()
	settings := modest
	settings.Address = d.address.socket
	if d.state, err = findStateIn(d.log, s.keep, &s.outside, settings, modestGarbage); err != nil {
		return err
	}
	d.state.atSweep = d.logFile.tryAgain
	recorder, err := d.record()
	if err != nil {
		return errors.Join(err, d.state.close())
	}
	r, err := registry(d.state, lifecycle.Options{Status: d.status, Shutdown: func() { d.shutdown() }}, d.view(&d.level, func() *unix.Server { return d.server }))
	if err != nil {
		return errors.Join(err, d.state.close())
	}
	d.kernel = kernel.New(r, &kernel.Options{
		Timeout: time.Duration(s.timeout), Store: d.state.store, Recorder: recorder, Blobs: d.state,
		IdempotencyTTL: d.state.outcomes,
		InFlight:       int(s.inFlight), InFlightAll: int(s.inFlightAll), Log: d.log,
	})
	options := s.options()
	options.Keys, options.Log = d.keys, d.log
	d.server = unix.NewServer(d.kernel, options)
	if err := d.openWeb(); err != nil {
		return errors.Join(err, d.state.close())
	}
	d.listening, d.elsewhere = d.web.urls, d.web.stats
	return nil
}

// record opens the store. A command that has it for a moment does not keep a daemon from
// starting.
func (d *daemon) record() (kernel.Recorder, error) {
	waiting, cancel := context.WithTimeout(context.Background(), inUse)
	defer cancel()
	for wait := waits(waiting); ; {
		recorder, err := d.state.record()
		if err == nil || !busy(err) || !wait() {
			return recorder, err
		}
	}
}

// run serves until ctx is done, finishes what has begun, and closes everything.
func (d *daemon) run(ctx context.Context) error {
	d.log.Info("serving", "version", version, "pid", os.Getpid(), "socket", d.address.socket, "http", d.web.urls, "home", d.address.home,
		"origin", d.address.origin, "auth", len(d.keys) > 0, "hash", d.kernel.Registry().Hash())
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { d.state.maintain(behind, d.kernel) })
	background.Go(func() { d.rates.run(behind, d.messages) })
	background.Go(func() { rest(behind, allocated, debug.FreeOSMemory) })
	debug.FreeOSMemory() // what opening the store took is not needed again

	ending := context.AfterFunc(ctx, func() { d.log.Info("stopping", "reason", context.Cause(ctx).Error()) })
	err := d.serveAll(ctx)
	ending()
	stop()
	background.Wait()
	// The next daemon finds the store closed: the lock of the socket goes last.
	err = errors.Join(err, d.state.close())
	if err != nil {
		d.log.Error("stopped", "error", err)
	} else {
		d.log.Info("stopped")
	}
	return errors.Join(err, d.listener.Close(), d.logFile.Close())
}

// introduce says what is served, where, and how to end it.
func (d *daemon) introduce(people io.Writer) {
	r := d.kernel.Registry()
	var modules []string
	for _, n := range r.Namespaces() { // what kernos MODULE METHOD takes
		modules = append(modules, n.Name)
	}
	kept := d.stored()
	who := "programs of this user"
	if len(d.keys) > 0 {
		who += " with " + terminal.Count(len(d.keys), "key that may sign", "keys that may sign")
	}
	directory := ""
	if d.state.directory != "" {
		directory = fmt.Sprintf("  directory %s (its folder os is os://, if there is one)\n", d.state.directory)
	}
	fmt.Fprintf(people, `kernos %s serves %s for %s
  process   %d
  socket    %s
  http      %s
  state     %s (%s, %s recorded)
%s  log       %s
  syscalls  %d: %s
kernos stop, or an interrupt, ends it.
`, version, d.address.origin, who, os.Getpid(), d.address.socket, strings.Join(d.web.urls, ", "), d.address.dir, terminal.Bytes(kept.Bytes), terminal.Count(int(kept.Messages), "message", "messages"),
		directory, d.logPlace, len(r.Types()), strings.Join(modules, ", "))
}
