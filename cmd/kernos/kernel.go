package main

import (
	"context"
	"os"

	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/request"
	"kernos/cmd/kernos/settings"
	"kernos/daemon"
)

// A caller sends requests to a kernel.
type caller = request.Caller

// openers returns the openers for commands that ask the kernel of a context. Where no daemon is
// running, open opens a kernel in this process, openStarted starts a daemon, and openRunning
// returns an error. The flag --context of all of them sets name.
func openers(name *string) (open, openStarted, openRunning opener) {
	opener := func(o connect.Options) opener {
		return func(ctx context.Context) (caller, func() error, error) {
			o.Context = *name
			k, err := connect.Open(ctx, o)
			if err != nil {
				return nil, nil, err
			}
			return k.Call, k.Close, nil
		}
	}
	return opener(connect.Options{InProcess: openInProcess}), opener(connect.Options{Start: true}), opener(connect.Options{})
}

// openInProcess opens a kernel in this process, which records nothing.
func openInProcess() (*daemon.Daemon, error) {
	home, err := settings.Home()
	if err != nil {
		return nil, err
	}
	return daemon.Open(&daemon.Options{
		Home: home.Dir, Origin: home.Origin, Version: version, Unrecorded: true,
		Keys: daemon.Keys{Agent: os.Getenv("SSH_AUTH_SOCK")}, StoreOpened: func() { setGarbage(storeGarbage) },
	})
}
