package server

import (
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kernos/message"
	"kernos/transport"
	"kernos/transport/unix"
)

// A daemon that has no place left, not even for its operator, is sent a signal.
func TestAFullDaemonIsSentASignal(t *testing.T) {
	d := newHome(t)
	// This process is the daemon: it holds the lock, and refuses every connection.
	held, err := unix.Listen(d.Socket, unix.Info{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Socket); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	full := message.Message{Kind: message.KindError, Type: transport.Disconnected, Data: message.Errorf(429, "There are 1 connections").Append(nil)}
	full.Metadata.ID, full.Metadata.Timestamp = "1", 1
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write(append(message.Append(nil, &full), '\n'))
			_ = conn.(*net.UnixConn).CloseWrite()
			_, _ = conn.Read(make([]byte, message.MaxLine)) // what was asked, so that the answer isn't lost
			_ = conn.Close()
		}
	})
	all.Go(func() {
		<-signals
		_ = held.Close()
	})
	report, err := d.Stop(t.Context(), time.Hour)
	if err != nil || !strings.HasSuffix(report, "; it could not be asked (the connection to the daemon has ended: There are 1 connections), and was sent SIGTERM") {
		t.Errorf("got %q, %v", report, err)
	}
	signal.Stop(signals)
	select {
	case signals <- nil: // none came
	default:
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
}
