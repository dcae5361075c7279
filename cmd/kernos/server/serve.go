package server

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

	"kernos/capability/crypto"
	"kernos/cmd/kernos/service"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/internal/systemd"
	"kernos/transport/unix"
)

// Serve runs a daemon to its end. It reports what the daemon does to a person who started it; to a client
// that started it, it reports only that the daemon serves, or why it doesn't.
func Serve(ctx context.Context, s *settings.Serve, stderr io.Writer) error {
	syscall.Umask(0o077)           // nothing that a daemon makes is for other users
	signal.Ignore(syscall.SIGPIPE) // writing to a connection that is gone returns an error
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)

	if err := guardPath(); err != nil {
		return err
	}
	manager, err := systemd.Take()
	if err != nil {
		return exit.Wrap(err)
	}
	if err := adopt(s, manager); err != nil {
		return err
	}
	home, err := settings.UsableHome()
	if err != nil {
		return err
	}
	s.Level = new(slog.LevelVar)
	people, shown := stderr, slog.Leveler(slog.LevelWarn)
	switch {
	case s.Detached:
		people = nil
	case manager != nil:
		shown = s.Level // systemd keeps it
	}
	log := OpenLog(LogPath(home), s.Level, people, shown)
	defer func() { _ = log.Close() }()
	s.Log = log.Logger
	if err := crypto.Harden(); err != nil {
		s.Log.Warn("a core dump of this process could hold secrets", "error", err)
	}
	s.Pebble = daemonStore
	SetGarbage(daemonGarbage)
	d, err := openProcess(s)
	if _, running := errors.AsType[*unix.Running](err); running && s.Detached {
		return &exit.Error{Status: exit.Taken, Cause: err}
	} else if err != nil {
		if !running {
			log.OnlyFile("can't start", err) // stderr gets the error anyway
		}
		if s := service.Of(home); running && s.Listens() {
			err = fmt.Errorf("%w; the service %s is installed, and kernos service uninstall removes it", err, s.Name)
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
			stop(daemon.ErrShutdown)
		case <-served:
			return
		}
		select {
		case <-signals: // insists
			os.Exit(exit.Interrupted)
		case <-served:
		}
	}()
	var away []string
	if d, ok := d.(*daemon.Daemon); ok {
		away = d.AwayNames()
	}
	notes, err := s.Remember(home, away)
	if err != nil {
		s.Log.Warn("the settings of this daemon can't be remembered, so one that comes back won't have them", "error", err)
	}
	switch {
	case s.Detached:
		ReportServing(stderr, notes)
	case s.Service: // its standard error is kept, and the address of the console has a secret
		for _, note := range notes {
			s.Log.Info("note", "text", note)
		}
	default:
		switch d := d.(type) {
		case *daemon.Daemon:
			introduce(d, s, log.Place, stderr)
		case *daemon.Member:
			introduceNode(d, s, log.Place, stderr)
		}
		for _, note := range notes {
			fmt.Fprintf(stderr, "kernos: %s\n", note)
		}
	}
	idle, stopIdle := context.WithCancel(context.Background())
	var memory sync.WaitGroup
	memory.Go(func() { releaseMemory(idle, allocated, debug.FreeOSMemory) })
	memory.Go(func() { converse(ctx, manager, d, s.Log) })
	if d, ok := d.(*daemon.Member); ok {
		memory.Go(func() { join(idle, s, home, d) })
	}
	debug.FreeOSMemory() // opening the store took memory that is not needed again
	err = errors.Join(d.Serve(ctx), d.Close())
	close(served)
	stop(nil)
	stopIdle()
	memory.Wait()
	if !s.Detached && !s.Service && err == nil {
		fmt.Fprintf(stderr, "kernos: stopped (%v)\n", cmp.Or(context.Cause(ctx), daemon.ErrShutdown))
	}
	return exit.Wrap(err)
}

// join makes a home a member of its node's cluster when that has been reached: a wrong setting is not kept.
func join(ctx context.Context, s *settings.Serve, home daemon.Home, m *daemon.Member) {
	select {
	case <-m.Joined():
	case <-ctx.Done():
		return
	}
	if err := s.Join(home, m.Name()); err != nil {
		s.Log.Warn("the membership of this home in the cluster can't be remembered, so other commands can't open it", "error", err)
	}
}

// A process is what kernos serve runs: a daemon, or a node of a cluster.
type process interface {
	Serve(context.Context) error
	Close() error
	Serving() <-chan struct{}
	ShutdownRequested() <-chan struct{}
	Alive(context.Context) error
	URLs() []string
}

// openProcess opens what the settings mean.
func openProcess(s *settings.Serve) (process, error) {
	if s.Cluster != nil {
		m, err := daemon.OpenMember(&s.Options)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	d, err := daemon.Open(&s.Options)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// introduceNode prints what a node of a cluster serves, and how to end it.
func introduceNode(m *daemon.Member, s *settings.Serve, logPlace string, people io.Writer) {
	fmt.Fprintf(people, `kernos %s is the node %s of a cluster for %s
  process   %d
  socket    %s
  http      %s
  state     %s
  log       %s
kernos cluster status shows the nodes. kernos stop, or an interrupt, ends this one; another one takes over.
`, s.Version, m.Name(), m.Home().Origin, os.Getpid(), strings.TrimPrefix(m.URLs()[0], "unix://"), strings.Join(m.URLs()[1:], ", "), m.Home().State(), logPlace)
}

// adopt gives a daemon the sockets that systemd listens on for it.
func adopt(s *settings.Serve, manager *systemd.Manager) error {
	if manager == nil {
		return nil
	}
	s.Socket.Listener = manager.Unix
	if manager.TCP == nil {
		return nil
	}
	address := manager.TCP.Addr().String()
	if s.Web.Address == "" {
		return &exit.Error{Status: exit.Usage, Cause: fmt.Errorf("systemd passes %s, and the setting no-http serves no TCP address: remove one of them", address)}
	}
	s.Web.Listener, s.Web.Address, s.Web.Optional = manager.TCP, address, false
	return nil
}

// converse tells systemd, until ctx is done, that the daemon serves and that its kernel answers, and then that it stops.
func converse(ctx context.Context, manager *systemd.Manager, d process, log *slog.Logger) {
	tell := func(state string) {
		if err := manager.Notify(state); err != nil {
			log.Warn("systemd doesn't hear of the daemon", "error", err)
		}
	}
	select {
	case <-d.Serving():
	case <-ctx.Done():
		return
	}
	tell("READY=1\nSTATUS=Serving " + strings.Join(d.URLs(), ", "))
	manager.Watch(ctx, d.Alive, func(err error) {
		log.Error("systemd gets no sign of life", "error", err)
	})
	<-ctx.Done()
	tell("STOPPING=1\nSTATUS=Finishing what runs")
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
	if status.Files != "" {
		directory = fmt.Sprintf("  os://     %s\n", status.Files)
	}
	if status.Directory != "" {
		directory += fmt.Sprintf("  directory %s (its folder os is a part of os://, for this run)\n", status.Directory)
	}
	for _, f := range status.Trusted {
		directory += fmt.Sprintf("  trusted   %s\n", f)
	}
	page := ""
	if url, err := d.ConsoleURL(false); err == nil {
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
`, s.Version, status.Origin, who, status.PID, status.Socket, strings.Join(d.URLs()[1:], ", "), page, d.Home().State(), terminal.Bytes(status.Store.Bytes),
		terminal.Count(int(status.Store.Messages), "message", "messages"), directory, logPlace, len(r.All().Types()), strings.Join(modules, ", "))
}

// guardPath takes what a repository could bring out of the PATH of this process, by which its kernel finds tools and servers.
func guardPath() error { return os.Setenv("PATH", settings.Path(os.Getenv("PATH"))) }

// OpenInProcess opens a kernel for a short command, which records nothing. The version is the program's.
func OpenInProcess(version string) (*daemon.Daemon, error) {
	if err := guardPath(); err != nil {
		return nil, err
	}
	home, err := settings.Home()
	if err != nil {
		return nil, err
	}
	return daemon.Open(&daemon.Options{
		Home: home.Dir, Origin: home.Origin, Version: version, Unrecorded: true,
		Keys: daemon.Keys{Agent: os.Getenv("SSH_AUTH_SOCK")}, StoreOpened: func() { SetGarbage(inlineGarbage) },
	})
}
