// Package systemd is the service's side of its conversation with systemd: the sockets that systemd passes to it, and what
// it reports. A program that another parent starts has no conversation; its Manager is nil, and does nothing.
//
//	manager, err := systemd.Take()
//	manager.Notify("READY=1")
//	manager.Watch(ctx, alive)
package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// firstSocket is the descriptor of the first socket that systemd passes.
const firstSocket = 3

// A Manager is the systemd that has started this process.
type Manager struct {
	// Unix and TCP are the sockets that systemd listens on, and has passed; nil for those that it hasn't.
	Unix *net.UnixListener
	TCP  *net.TCPListener

	// Watchdog is how long systemd waits for a sign of life before it restarts the service. 0 means that it doesn't watch.
	Watchdog time.Duration

	notify string // the socket for what the service reports; "" if systemd doesn't want to know
}

// Take returns the systemd that has started this process; nil if none has. It takes the variables by which systemd
// does that out of the environment, so that the programs which this process starts don't take themselves for the service.
func Take() (*Manager, error) {
	variables := make(map[string]string)
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		variables[name] = os.Getenv(name)
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	self := strconv.Itoa(os.Getpid())
	m := &Manager{notify: variables["NOTIFY_SOCKET"]}
	if pid := variables["WATCHDOG_PID"]; pid == "" || pid == self {
		if micros, err := strconv.ParseInt(variables["WATCHDOG_USEC"], 10, 64); err == nil && micros > 0 {
			m.Watchdog = time.Duration(micros) * time.Microsecond
		}
	}
	if variables["LISTEN_PID"] == self {
		count, err := strconv.Atoi(variables["LISTEN_FDS"])
		if err != nil || count < 0 {
			return nil, fmt.Errorf("LISTEN_FDS is %q; expected how many sockets systemd passes", variables["LISTEN_FDS"])
		}
		for fd := firstSocket; fd < firstSocket+count; fd++ {
			if err := m.adopt(fd); err != nil {
				return nil, err
			}
		}
	}
	if *m == (Manager{}) {
		return nil, nil
	}
	return m, nil
}

// adopt takes over a socket that systemd has passed.
func (m *Manager) adopt(fd int) error {
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "socket from systemd")
	listener, err := net.FileListener(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("the socket that systemd has passed as descriptor %d can't be used: %w", fd, err)
	}
	switch l := listener.(type) {
	case *net.UnixListener:
		if m.Unix == nil {
			m.Unix = l
			return takePeer(l)
		}
	case *net.TCPListener:
		if m.TCP == nil {
			m.TCP = l
			return nil
		}
	}
	_ = listener.Close()
	return fmt.Errorf("systemd passes %s as well; a service takes one unix socket and one TCP address", listener.Addr())
}

// takePeer makes this process the one whose user clients see at the other end of the socket. Without this, they see the
// user of systemd, which has listened first.
func takePeer(l *net.UnixListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	if controlErr := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), syscall.SOMAXCONN) }); controlErr != nil {
		return controlErr
	}
	return err
}

// Notify reports the state of the service to systemd, as sd_notify does: READY=1, STATUS=….
func (m *Manager) Notify(state string) error {
	if m == nil || m.notify == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.notify, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("systemd can't be told %q: %w", state, err)
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}

// Watch gives systemd a sign of life twice in each [Manager.Watchdog], until ctx is done. It gives none when alive returns an error or
// doesn't return in time; report gets that error.
func (m *Manager) Watch(ctx context.Context, alive func(context.Context) error, report func(error)) {
	if m == nil || m.Watchdog == 0 {
		return
	}
	period := m.Watchdog / 2
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, period)
		err := alive(asking)
		cancel()
		if err == nil {
			err = m.Notify("WATCHDOG=1")
		}
		if err != nil && ctx.Err() == nil {
			report(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
