package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"kernos/client"
	"kernos/cmd/kernos/callline"
	"kernos/cmd/kernos/exit"
	"kernos/transport/unix"
)

// A destination is the server that a command line means.
type destination struct {
	target client.Target
	local  *address // if it is the daemon of this user
	called string   // the name of its context; "" if its address was given
}

// findServer says whom the flags, the environment and the current context mean.
func findServer(context, url string) (d destination, err error) {
	if url != "" {
		d.target = client.Target{URL: url, Token: os.Getenv("KERNOS_TOKEN")}
		if overTLS(url) {
			d.target.CAFile = os.Getenv("KERNOS_CA_FILE")
		}
		return d, d.target.Check()
	}
	all, err := readContexts()
	if err != nil {
		return d, exit.Wrap(err)
	}
	d.called = context
	if d.called == "" {
		d.called = all.current()
	}
	if d.called != localContext {
		d.target, err = all.target(d.called)
		return d, err
	}
	if d.local, err = findAddress(); err != nil {
		return d, err
	}
	d.target = d.local.target()
	return d, nil
}

// target is where the daemon of this user answers calls.
func (a *address) target() client.Target {
	return client.Target{URL: "unix://" + unix.HTTPPath(a.socket)}
}

// sign gets what HTTP wants to see, if the server is a daemon of this user that wants
// signatures.
func (d *destination) sign(ctx context.Context) (err error) {
	if d.local == nil {
		return nil
	}
	d.target.Token = ""
	if info, _ := unix.Inspect(d.local.socket); info.Auth {
		d.target.Token, err = d.local.ticket(ctx)
	}
	return err
}

// reach connects to the server.
func (d *destination) reach(ctx context.Context) (*client.Client, error) {
	if err := d.sign(ctx); err != nil {
		return nil, err
	}
	conn, err := client.Dial(ctx, d.target)
	r, refused := errors.AsType[*client.Refused](err)
	if !refused || r.Status != http.StatusUnauthorized || d.local == nil || d.target.Token != "" {
		return conn, err
	}
	// The file that says that it wants a signature was swept away.
	if d.target.Token, err = d.local.ticket(ctx); err != nil {
		return nil, err
	}
	return client.Dial(ctx, d.target)
}

// dial connects to the server; if it is the daemon of this user, and may be, it is started,
// and if one is about to end, the next.
func (d *destination) dial(ctx context.Context, start bool) (*client.Client, error) {
	conn, err := d.reach(ctx)
	if d.local == nil || !start {
		return conn, err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := waits(waiting); away(err); {
		daemon, failure := d.local.summon(ctx)
		if failure != nil {
			return nil, failure
		}
		_ = daemon.Close()
		d.target.URL = d.local.target().URL // it may be another than the one that was gone
		// One that begins takes its other socket first.
		if conn, err = d.reach(ctx); away(err) && !wait() {
			break
		}
	}
	return conn, err
}

// away reports whether a server is not there for the moment: it begins, or ends.
func away(err error) bool {
	_, unreachable := errors.AsType[*client.Unreachable](err)
	r, refused := errors.AsType[*client.Refused](err)
	return unreachable || refused && r.Status == http.StatusServiceUnavailable
}

// setting is how to say what a file has, for the server: in its context, or in a variable if
// it has none.
func (d *destination) setting(flag, variable string) string {
	if d.called == "" {
		return fmt.Sprintf("kernos context add NAME %s --%s FILE, or the variable %s for an address without a name", callline.ShellQuote(d.target.URL), flag, variable)
	}
	return fmt.Sprintf("kernos context set %s --%s FILE", d.called, flag)
}

// doctor is the command that examines the server.
func (d *destination) doctor() string {
	switch {
	case d.local != nil:
		return "kernos doctor"
	case d.called != "":
		return "kernos doctor --context " + d.called
	}
	return "kernos doctor " + callline.ShellQuote(d.target.URL)
}

// explain gives an error of the client its status, and says what to do about it.
func (d *destination) explain(err error) error {
	if _, ok := errors.AsType[*exit.Error](err); ok || err == nil {
		return err
	}
	status := exit.Failure
	if advice := d.tlsAdvice(err); advice != "" {
		return &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf("%w; %s", err, advice)}
	}
	if r, ok := errors.AsType[*client.Refused](err); ok {
		status = exit.Unreachable
		if r.Forbidden() {
			status = exit.Forbidden
			err = fmt.Errorf("%w; its token is set with %s", err, d.setting("token-file", "KERNOS_TOKEN"))
		}
	}
	if _, ok := errors.AsType[*client.Unreachable](err); ok {
		status = exit.Unreachable
		err = fmt.Errorf("%w; %s looks for the reason", err, d.doctor())
	}
	if _, ok := errors.AsType[*client.Lost](err); ok {
		status = exit.Unreachable
	}
	if e, ok := errors.AsType[*client.RPCError](err); ok {
		switch e.Code {
		case -32601:
			status = exit.Unknown
		case -32602:
			status = exit.Invalid
		}
	}
	return &exit.Error{Status: status, Cause: err}
}
