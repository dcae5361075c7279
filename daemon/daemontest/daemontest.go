// Package daemontest serves a whole Kernos for a test.
package daemontest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"kernos/daemon"
	"kernos/internal/testkit"
)

// A Daemon is served until the test ends.
type Daemon struct {
	*daemon.Daemon

	Address string // HOST:PORT of its HTTP server, or ""
	Stop    func() // ends it before the test does, and waits until it has ended
}

// Open opens a daemon whose home shares the compiled script engine with the homes of other tests.
func Open(o *daemon.Options) (*daemon.Daemon, error) {
	home, err := daemon.FindHome(o.Home, o.Origin)
	if err != nil {
		return nil, err
	}
	if err := testkit.ShareEngine(home.State()); err != nil {
		return nil, err
	}
	return daemon.Open(o)
}

// Serve opens a daemon and serves it. It is an error of the test if serving or closing it fails.
func Serve(t testing.TB, o *daemon.Options) *Daemon {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	s := &Daemon{Daemon: d, Stop: sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-served, d.Close()); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})}
	t.Cleanup(s.Stop)
	<-d.Serving()
	for _, url := range d.URLs() {
		for _, scheme := range []string{"http://", "https://"} {
			if address, ok := strings.CutPrefix(url, scheme); ok {
				s.Address = address
			}
		}
	}
	return s
}
