package server

import (
	"errors"
	"testing"

	"kernos/client"
	"kernos/daemon"
)

// When one call finds out that the kernel is gone and drops the connection, the others on it end for the same reason, not
// because the command closed it.
func TestCallsEndForTheReasonOfTheOneThatDropsTheirConnection(t *testing.T) {
	k := new(Kernel)
	if err := k.openDefinitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := &client.Unreachable{URL: "ws://gone/", Err: errors.New("it has stopped")}
	err := k.attempt(t.Context(), func(conn *client.Client, _ *daemon.Daemon) (taken bool, err error) {
		if err := k.drop(conn, gone); err != nil { // another call
			t.Error(err)
		}
		_, err = conn.Open(t.Context(), client.Request{Method: "kernel_ping"})
		return true, err
	})
	if !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	err = k.attempt(t.Context(), func(*client.Client, *daemon.Daemon) (bool, error) { return true, nil })
	if !errors.Is(err, client.ErrClosed) {
		t.Errorf("a closed kernel: %v", err)
	}
}
