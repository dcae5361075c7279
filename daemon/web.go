package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"kernos/internal/patience"
	"kernos/transport"
	httpd "kernos/transport/http"
	"kernos/transport/mcp"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

// web has the addresses at which HTTP and WebSockets are served: TCP and the socket.
type web struct {
	endpoints []httpd.Endpoint
	urls      []string
}

// openWeb takes the addresses that HTTP is served at. If it fails, none is taken.
func openWeb(d *Daemon) (_ server, err error) {
	w := new(web)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if d.lock != nil {
		w.add("http+unix://"+d.lock.Path(), httpd.Endpoint{Listener: d.socket.HTTP()})
	}
	if d.opts.doors != nil && !d.opts.signed() {
		w.endpoints = append(w.endpoints, httpd.Endpoint{Listener: d.opts.doors.visitors, Remote: true})
	}
	if o := d.opts.Web; (o.Address != "" || d.opts.doors != nil) && (!d.opts.signed() || o.InsecureWithoutSignature) {
		if err := w.openTCP(d, o); err != nil {
			return server{}, err
		}
	}
	l := &d.opts.Limits
	streams := rpc.New(d.kernel, nil)
	sockets := ws.New(streams, &ws.Options{MaxConnections: transport.Share(cmp.Or(l.MaxConnections, 16384), webPart), FrameRate: l.FrameRate, Log: d.opts.Log})
	d.clients = mcp.New(d.kernel, &mcp.Options{
		Version: d.opts.Version, Offers: d.opts.Offers, Tasks: &d.tasks, Find: d.tokens.Named, Resolve: d.state.resolve, Blobs: d.state.blobs, ReachesBlob: d.state.reaches, Watch: d.watchResource, FrameRate: l.FrameRate, Log: d.opts.Log,
	})
	httpServer := httpd.NewServer(d.kernel, &httpd.Options{
		WebSocket: sockets, MCP: d.clients, Console: d.console, RPC: streams, Blobs: d.state.blobs, ReachesBlob: d.state.reaches, Ready: d.state.ready, Collect: d.collect,
		MaxConnections: transport.Share(cmp.Or(l.MaxConnections, 4096), webPart), FrameRate: l.FrameRate, RequestRate: l.RequestRate,
		Idle: l.Idle, Grace: l.Grace, Log: d.opts.Log,
	})
	return server{
		urls:  w.urls,
		wires: []wire{{stats: httpServer.Stats}, {"websocket", "WebSockets", sockets.Stats}, {"mcp", "kernos mcp", d.clients.Stats}},
		serve: func(ctx context.Context) error { return httpServer.Serve(ctx, w.endpoints...) },
		close: func() error {
			defer streams.Close()
			return w.close()
		},
	}, nil
}

// webPart is the part of the process's files that is for HTTP, and as much for WebSockets: one
// of four.
const webPart = 4

// openTCP takes the TCP address.
func (w *web) openTCP(d *Daemon, o *Web) error {
	skip := func(err error) error { return o.skip(d.opts.Log, err) }
	if d.opts.doors == nil {
		if _, err := o.address(); err != nil {
			return err
		}
	}
	guard, err := o.guard()
	if err != nil {
		return err
	}
	guard.Console = d.consoleGuard()
	endpoint := httpd.Endpoint{Remote: true, Guard: &guard}
	if !o.NoToken || d.opts.doors != nil {
		token, err := httpd.OpenToken(cmp.Or(o.TokenFile, d.home.Token()))
		if err != nil && o.Optional && unwritable(err) {
			return skip(err)
		}
		if err != nil {
			return err
		}
		d.tokens.SetFile(token)
		guard.Authenticate = d.tokens.Authenticate
	}
	if d.opts.doors != nil { // what other nodes let in has a token, whatever this one lets in itself
		visitors := guard
		w.endpoints = append(w.endpoints, httpd.Endpoint{Listener: d.opts.doors.tcpVisitors, Remote: true, Guard: &visitors})
		if d.opts.doors.web == nil {
			return nil
		}
	}
	if o.NoToken {
		guard.Authenticate, guard.Anyone = nil, d.tokens.Default
	}
	scheme := "http"
	if o.CertFile != "" {
		scheme = "https"
		if endpoint.Certificate, err = httpd.OpenCertificate(o.CertFile, o.KeyFile, d.opts.Log); err != nil {
			return &OptionError{"tls-cert", err}
		}
	}
	var tcp net.Listener
	if d.opts.doors != nil {
		tcp = d.opts.doors.web
	} else if tcp, err = o.listen(d.opts.Log); err != nil {
		return err
	} else if tcp == nil {
		return nil
	}
	endpoint.Listener = tcp
	w.add(scheme+"://"+tcp.Addr().String(), endpoint)
	return nil
}

// listen takes the TCP address. The listener is nil if the address is in use and optional.
func (o *Web) listen(log *slog.Logger) (net.Listener, error) {
	address, err := o.address()
	if err != nil {
		return nil, err
	}
	if o.Listener != nil {
		return o.Listener, nil
	}
	tcp, err := net.ListenTCP("tcp", address)
	if err != nil {
		err = &AddressError{Address: o.Address, Kernos: errors.Is(err, syscall.EADDRINUSE) && servedByKernos(address.String()), Err: err}
		if o.Optional {
			return nil, o.skip(log, err)
		}
		return nil, err
	}
	return tcp, nil
}

// address returns the TCP address, if it may be served.
func (o *Web) address() (*net.TCPAddr, error) {
	address, err := net.ResolveTCPAddr("tcp", o.Address)
	if err != nil {
		return nil, &OptionError{"addr", err}
	}
	return address, o.permitted(address)
}

// skip warns that the TCP address isn't served.
func (o *Web) skip(log *slog.Logger, err error) error {
	log.Warn("HTTP is served over the socket only", "reason", err.Error())
	return nil
}

// An AddressError reports a TCP address that can't be served.
type AddressError struct {
	Address string
	Kernos  bool // another kernos has it
	Err     error
}

func (e *AddressError) Error() string {
	switch {
	case e.Kernos:
		return e.Address + " is in use by another kernos, which serves another home or origin"
	case errors.Is(e.Err, syscall.EADDRINUSE):
		return e.Address + " is in use by another program"
	}
	return fmt.Sprintf("%s can't be served: %v", e.Address, e.Err)
}

// Unwrap returns the reason.
func (e *AddressError) Unwrap() error { return e.Err }

// servedByKernos reports whether the server at an address is Kernos.
func servedByKernos(address string) bool {
	client := http.Client{Timeout: patience.For(time.Second), Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/healthz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.Header.Get("Server") == httpd.Name
}

// unwritable reports whether an error is that of a disk that takes nothing new.
func unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC)
}

func (w *web) add(url string, endpoint httpd.Endpoint) {
	w.urls = append(w.urls, url)
	w.endpoints = append(w.endpoints, endpoint)
}

func (w *web) close() (err error) {
	for _, e := range w.endpoints {
		if closeErr := e.Listener.Close(); !errors.Is(closeErr, net.ErrClosed) {
			err = errors.Join(err, closeErr)
		}
	}
	return err
}
