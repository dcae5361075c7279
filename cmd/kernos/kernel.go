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

// openers returns the openers for commands that ask the kernel of a context: where no daemon is
// running, open and openRecorded open one in this process, in which the requests of openRecorded
// are recorded; openRunning needs a daemon. The flag --context of all of them sets name.
func openers(name *string) (open, openRecorded, openRunning opener) {
	opener := func(inProcess func() (*daemon.Daemon, error)) opener {
		return func(ctx context.Context) (caller, func() error, error) {
			k, err := connect.Open(ctx, connect.Options{Context: *name, InProcess: inProcess})
			if err != nil {
				return nil, nil, err
			}
			return k.Call, k.Close, nil
		}
	}
	return opener(func() (*daemon.Daemon, error) { return openInProcess(false) }),
		opener(func() (*daemon.Daemon, error) { return openInProcess(true) }), opener(nil)
}

// openInProcess opens a kernel in this process.
func openInProcess(record bool) (*daemon.Daemon, error) {
	home, err := settings.Home()
	if err != nil {
		return nil, err
	}
	return daemon.Open(&daemon.Options{
		Home: home.Dir, Origin: home.Origin, Version: version, Unrecorded: !record,
		Keys: daemon.Keys{Agent: os.Getenv("SSH_AUTH_SOCK")}, StoreOpened: func() { setGarbage(inlineGarbage) },
	})
}
