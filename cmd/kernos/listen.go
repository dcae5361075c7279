package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/store"
	"kernos/transport"
	httpd "kernos/transport/http"
	"kernos/transport/rpc"
	"kernos/transport/unix"
	"kernos/transport/ws"
)

// defaultAddress is the TCP address of a daemon if nobody says another.
const defaultAddress = "127.0.0.1:7420"

// listenSettings say where and for whom a daemon serves HTTP and WebSockets. The zero value
// is: over the socket only.
type listenSettings struct {
	address         tcpAddress
	off             bool
	tokenFile       string
	noToken         bool
	cert, key       string
	hosts           []string
	origins         []string
	requestRate     rate
	withoutTLS      bool
	withoutToken    bool
	unsigned        bool     // the TCP address is served although there are keys
	allowed, served []string // hosts and origins as they are compared; known after check
}

// add adds the flags.
func (l *listenSettings) add(c *cobra.Command) {
	l.address = tcpAddress{text: defaultAddress}
	f := c.Flags()
	f.Var(&l.address, "addr", "serve HTTP and WebSockets at this address too; without the flag, only if it is free")
	f.BoolVar(&l.off, "no-http", false, "serve no TCP address")
	f.StringVar(&l.tokenFile, "token-file", "", "the `FILE` with the token that callers over TCP must know; made if it is not there (default token in the home directory)")
	f.BoolVar(&l.noToken, "no-token", false, "let everybody in who can connect to the address")
	f.StringVar(&l.cert, "tls-cert", "", "the `FILE` with the certificate to serve TLS with, in PEM; read again when it changes")
	f.StringVar(&l.key, "tls-key", "", "the `FILE` with the key of that certificate, in PEM")
	f.StringArrayVar(&l.hosts, "allow-host", nil, "a `NAME` by which callers know this machine, beside localhost and its address; can be given again")
	f.StringArrayVar(&l.origins, "allow-origin", nil, "let web pages of this `ORIGIN` (https://app.example.com) in, with the token; can be given again")
	f.Var(&l.requestRate, "request-rate", "how many HTTP requests a second are taken from one address; 0 is any number")
	f.BoolVar(&l.withoutTLS, "insecure-listen-without-tls", false, "serve an address that other machines reach although everybody between can read along")
	f.BoolVar(&l.withoutToken, "insecure-listen-without-token", false, "serve an address that other machines reach although no token keeps anybody out")
	f.BoolVar(&l.unsigned, "insecure-listen-without-signature", false, "with --auth-key: serve a TCP address although whoever knows the token need not sign")
}

// check finds what is wrong with the settings before anything is opened. Signed says that
// clients of the socket must sign.
func (l *listenSettings) check(signed bool) error {
	switch {
	case (l.cert == "") != (l.key == ""):
		return errors.New("--tls-cert and --tls-key belong together; give both or none")
	case l.noToken && l.tokenFile != "":
		return errors.New("--no-token and --token-file contradict each other; leave one out")
	case l.noToken && signed:
		return errors.New("with --no-token, HTTP would let those in who can't sign for --auth-key; leave one of them out")
	case signed && l.address.asked && !l.off && !l.unsigned:
		return errors.New("at --addr those would be let in who know the token and can't sign for --auth-key; leave one of them out, or say --insecure-listen-without-signature")
	}
	l.allowed, l.served = nil, nil
	for _, text := range l.hosts {
		host, err := httpd.ParseHost(text)
		if err != nil {
			return fmt.Errorf("--allow-host: %w", err)
		}
		l.allowed = append(l.allowed, host)
	}
	for _, text := range l.origins {
		origin, err := httpd.ParseOrigin(text)
		if err != nil {
			return fmt.Errorf("--allow-origin: %w", err)
		}
		l.served = append(l.served, origin)
	}
	return nil
}

// public reports whether other machines can reach the address.
func (l *listenSettings) public() bool {
	if l.off || l.address.text == "" {
		return false
	}
	a, err := net.ResolveTCPAddr("tcp", l.address.text)
	return err != nil || !a.IP.IsLoopback()
}

// permitted says why an address may not be served as the settings are, if other machines can
// reach it.
func (l *listenSettings) permitted(a *net.TCPAddr) error {
	if a.IP.IsLoopback() {
		return nil
	}
	var missing []string
	if l.cert == "" && !l.withoutTLS {
		missing = append(missing, "TLS (give --tls-cert and --tls-key, or say --insecure-listen-without-tls)")
	}
	if l.noToken && !l.withoutToken {
		missing = append(missing, "a token (leave out --no-token, or say --insecure-listen-without-token)")
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("other machines can reach %s, so it is not served without %s", l.address.text, strings.Join(missing, " and "))
}

// A tcpAddress is where to listen, on the command line.
type tcpAddress struct {
	text  string
	asked bool // somebody has said it
}

// Set implements the interface of a flag.
func (a *tcpAddress) Set(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return fmt.Errorf("expected an address and a port such as %s, got %q", defaultAddress, text)
	}
	*a = tcpAddress{text: text, asked: true}
	return nil
}

// String implements the interface of a flag.
func (a *tcpAddress) String() string { return a.text }

// Type implements the interface of a flag.
func (a *tcpAddress) Type() string { return "ADDRESS" }

// web is what a daemon serves over HTTP.
type web struct {
	server *httpd.Server
	doors  []httpd.Door
	urls   []string // of the doors
	rpc    *rpc.Service
	ws     *ws.Handler
}

// openWeb takes the addresses that HTTP is served at. If that fails, none is taken. The
// default address is left to whoever has it; one that was asked for must be had.
func (d *daemon) openWeb() (err error) {
	l := &d.settings.listen
	defer func() {
		if err != nil {
			for _, door := range d.web.doors {
				err = errors.Join(err, door.Listener.Close())
			}
		}
	}()
	socket := httpd.Door{}
	signed := len(d.keys) > 0
	if signed {
		// Nobody gets around the signature: the token lies in a file, and is no way in.
		ticket, err := issueTickets(d.kernel.Registry())
		if err != nil {
			return err
		}
		socket.Guard = &httpd.Guard{Private: true, Token: ticket}
	}
	tcp := !l.off && l.address.text != "" && (!signed || l.unsigned)
	var token *httpd.Token
	if tcp && !l.noToken {
		token, err = httpd.OpenToken(l.tokenPath(d.address.home))
		switch {
		case err == nil:
		case unwritable(err) && !l.address.asked:
			d.log.Warn("HTTP is served over the socket only", "reason", err.Error())
			tcp = false
		default:
			return err
		}
	}
	path := unix.HTTPPath(d.address.socket)
	if socket.Listener, err = d.listener.Beside(path, d.log); err != nil {
		return err
	}
	d.web.add("http+unix://"+path, socket)
	if tcp {
		if err := d.openTCP(token); err != nil {
			return err
		}
	}
	s := d.settings
	d.web.rpc = rpc.New(d.kernel, nil)
	d.web.ws = ws.New(d.web.rpc, &ws.Options{MaxConnections: int(s.maxConnections), FrameRate: float64(s.frameRate), Log: d.log})
	d.web.server = httpd.NewServer(d.kernel, &httpd.Options{
		WebSocket: d.web.ws, RPC: d.web.rpc,
		Blobs: d.state.blobs, Ready: d.state.ready, Collect: d.collect,
		MaxConnections: int(s.maxConnections), FrameRate: float64(s.frameRate), RequestRate: float64(l.requestRate),
		Idle: time.Duration(s.idle), Grace: time.Duration(s.grace), Log: d.log,
	})
	return nil
}

func (w *web) add(url string, d httpd.Door) {
	w.urls = append(w.urls, url)
	w.doors = append(w.doors, d)
}

// stats returns how many connections there are over HTTP and WebSockets, and how many
// requests and connections were refused.
func (w *web) stats() (connections int, refused uint64) {
	plain, sockets := w.server.Stats(), w.ws.Stats()
	return plain.Connections + sockets.Connections, plain.Rejected() + sockets.Rejected()
}

// tokenPath is where the token is.
func (l *listenSettings) tokenPath(home string) string {
	if l.tokenFile != "" {
		return l.tokenFile
	}
	return filepath.Join(home, "token")
}

// openTCP takes the TCP address.
func (d *daemon) openTCP(token *httpd.Token) error {
	l := &d.settings.listen
	usage := func(err error) error { return &exit.Error{Status: exit.Usage, Cause: err} }
	address, err := net.ResolveTCPAddr("tcp", l.address.text)
	if err != nil {
		return usage(fmt.Errorf("--addr: %w", err))
	}
	if err := l.permitted(address); err != nil {
		return usage(err)
	}
	door := httpd.Door{Remote: true, Guard: &httpd.Guard{Hosts: l.allowed, Origins: l.served}}
	if !l.noToken {
		door.Guard.Token = token.Value
	}
	scheme := "http"
	if l.cert != "" {
		scheme = "https"
		if door.Certificate, err = httpd.OpenCertificate(l.cert, l.key, d.log); err != nil {
			return usage(err)
		}
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%s is in use by %s; say another address with --addr or KERNOS_ADDR, or none with --no-http", l.address.text, occupant(address.String()))
		} else {
			err = fmt.Errorf("%s can't be served: %w", l.address.text, err)
		}
		if l.address.asked {
			return err
		}
		d.log.Warn("HTTP is served over the socket only", "reason", err.Error())
		return nil
	}
	door.Listener = listener
	d.web.add(scheme+"://"+listener.Addr().String(), door)
	return nil
}

// occupant says who serves an address, as far as they tell.
func occupant(address string) string {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/healthz")
	if err != nil {
		return "another program"
	}
	_ = response.Body.Close()
	if response.Header.Get("Server") != httpd.Name {
		return "another program"
	}
	return "another kernos, which serves another home or origin"
}

// serveAll serves the socket and HTTP until ctx is done, or one of them can't go on.
func (d *daemon) serveAll(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over := make(chan error, 1)
	go func() {
		err := d.web.server.Serve(ctx, d.web.doors...)
		stop(err)
		over <- err
	}()
	err := d.server.Serve(ctx, d.listener)
	stop(err)
	err = errors.Join(err, <-over)
	d.web.rpc.Close()
	return err
}

// ready says why the kernel can't do its work at the moment: nothing can be read, or nothing
// be written.
func (s *state) ready() error {
	now, err := s.store.Snapshot()
	if err != nil {
		return err
	}
	_, err = s.store.Apply(new(store.Batch))
	return errors.Join(err, now.Close())
}

// collect adds what a daemon knows of itself to the metrics.
func (d *daemon) collect(m *httpd.Metrics) {
	m.Gauge("kernos_info", "The daemon.", 1, httpd.Label{Name: "version", Value: version}, httpd.Label{Name: "origin", Value: string(d.address.origin)})
	m.Gauge("kernos_start_time_seconds", "When the daemon was started, in seconds since 1970.", float64(d.started.UnixMilli())/1000)
	kept := d.stored()
	m.Gauge("kernos_store_bytes", "Bytes that the store and the blobs have on disk.", float64(kept.Bytes))
	m.Gauge("kernos_journal_messages", "Messages that are recorded.", float64(kept.Messages))
	w := d.web.ws.Stats()
	m.Gauge("kernos_websocket_connections", "Connections over WebSockets.", float64(w.Connections))
	m.Counter("kernos_websocket_accepted_total", "Connections over WebSockets that were served.", float64(w.Accepted))
	for reason, n := range ended(w) {
		m.Counter("kernos_websocket_closed_total", "Connections over WebSockets that the daemon has turned away or dropped.", float64(n), httpd.Label{Name: "reason", Value: string(reason)})
	}
	u := d.server.Stats()
	m.Gauge("kernos_socket_connections", "Connections over the socket of messages.", float64(u.Connections))
	m.Counter("kernos_socket_accepted_total", "Connections over the socket of messages that were served.", float64(u.Accepted))
	for reason, n := range ended(u) {
		m.Counter("kernos_socket_closed_total", "Connections over the socket of messages that the daemon has turned away or closed.", float64(n), httpd.Label{Name: "reason", Value: string(reason)})
	}
}

// ended goes through the reasons for which connections were refused and closed, in order.
func ended(s transport.Stats) iter.Seq2[transport.Reason, uint64] {
	return func(yield func(transport.Reason, uint64) bool) {
		for _, reason := range slices.Sorted(maps.Keys(s.Refused)) {
			if !yield(reason, s.Refused[reason]) {
				return
			}
		}
		for _, reason := range slices.Sorted(maps.Keys(s.Closed)) {
			if !yield(reason, s.Closed[reason]) {
				return
			}
		}
	}
}
