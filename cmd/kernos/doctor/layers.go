package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	systemcalls "golang.org/x/sys/unix"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/transport/unix"
)

// checkPlace checks that something listens at the address.
func (d *doctor) checkPlace(ctx context.Context) bool {
	u, err := url.Parse(d.Target.URL)
	if err != nil {
		return d.unreached("address", "write it as ws://127.0.0.1:7420/, wss://… or unix:///path/of/a.sock", "%q isn't an address", d.Target.URL)
	}
	if strings.Contains(u.Scheme, "unix") {
		return d.checkSocket(ctx, u.Host+u.Path)
	}
	return d.checkTCP(ctx, u)
}

func (d *doctor) checkSocket(ctx context.Context, path string) bool {
	if d.Daemon != nil {
		info, running := unix.Inspect(d.Daemon.Socket)
		hidden := d.Daemon.Unseen()
		switch {
		case running && d.Daemon.IsElsewhere():
			d.well("socket", "process %d, version %s, since %s, serves this home from another XDG_RUNTIME_DIR", info.PID, info.Version, info.Started.Local().Format(time.DateTime))
		case running:
			d.well("socket", "the daemon is process %d, version %s, since %s", info.PID, info.Version, info.Started.Local().Format(time.DateTime))
		case d.Daemon.Asleep():
			return d.unreached("socket", "any call starts the daemon; kernos service status shows how the service is doing", "the service of %s is installed, and its daemon isn't running", d.Daemon.Dir)
		case dial(ctx, "unix", d.Daemon.Socket) == nil:
			d.doubtful("socket", "keep what tidies temporary directories away from "+filepath.Dir(d.Daemon.Socket), "a daemon is running, and something has removed its lock file")
		case hidden != nil:
			return d.unreached("socket", "", "%v", hidden) // the error describes what to do
		default:
			return d.unreached("socket", "kernos serve starts the daemon, and so does kernos pipe or any call", "no daemon is running for %s", d.Daemon.Dir)
		}
	}
	if err := dial(ctx, "unix", path); err != nil {
		advice := "start the server, or give the right path"
		switch {
		case d.Daemon != nil:
			advice = "kernos stop ends the daemon, and the next call starts a new one"
		case errors.Is(err, syscall.ECONNREFUSED):
			advice = "the server that made it is gone: start it again"
		case errors.Is(err, fs.ErrPermission):
			advice = "it belongs to another user"
		}
		return d.unreached("socket", advice, "%v", err)
	}
	d.well("socket", "%s accepts connections", path)
	if d.Daemon == nil {
		return true // the directory may be meant for other users too
	}
	if info, err := os.Stat(filepath.Dir(path)); err == nil && info.Mode().Perm()&0o077 != 0 {
		d.doubtful("socket", "chmod 700 "+terminal.ShellQuote(filepath.Dir(path)), "others may enter %s", filepath.Dir(path))
	}
	return true
}

// dial connects to an address, and closes the connection.
func dial(ctx context.Context, network, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (d *doctor) checkTCP(ctx context.Context, u *url.URL) bool {
	port := cmp.Or(u.Port(), map[bool]string{true: "443", false: "80"}[u.Scheme == "wss" || u.Scheme == "https"])
	addresses, err := new(net.Resolver).LookupHost(ctx, u.Hostname())
	if err != nil {
		return d.unreached("tcp", "check the name and the network", "%s can't be found: %v", u.Hostname(), err)
	}
	begun, address := time.Now(), net.JoinHostPort(u.Hostname(), port)
	if err := dial(ctx, "tcp", address); err != nil {
		advice := "a firewall may be in between, or the machine is off"
		if errors.Is(err, syscall.ECONNREFUSED) {
			advice = "nothing listens there: start the server (kernos serve --addr " + address + "), or check the port"
		}
		return d.unreached("tcp", advice, "%v", err)
	}
	d.well("tcp", "%s accepts connections (%s, %v)", address, strings.Join(addresses, ", "), time.Since(begun).Round(time.Microsecond))
	return true
}

// checkListening checks that the TCP addresses of the user's own daemon, which was reached by
// its socket, can be reached too.
func (d *doctor) checkListening(ctx context.Context, listening []string) {
	served := false
	for _, text := range listening {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			continue
		}
		served = true
		if err := dial(ctx, "tcp", u.Host); err != nil {
			d.wrong("tcp", "check whether something on this machine, such as a firewall, blocks it", "the daemon listens on %s, and can't be reached there: %v", u.Host, err)
			continue
		}
		d.well("tcp", "%s accepts connections", u.Host)
	}
	if !served {
		d.well("tcp", "no TCP address is served")
	}
}

// checkHTTP asks for the health pages, which servers need not have, and compares clocks.
func (d *doctor) checkHTTP(ctx context.Context) bool {
	response, _, err := d.Target.Get(ctx, "/healthz")
	if err != nil {
		if advice := d.TLSAdvice(err); advice != "" {
			if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
				err = fmt.Errorf("the certificate is not trusted: %w", bad.Err)
			}
			return d.unreached("tls", advice, "%v", err)
		}
		if unsigned, ok := errors.AsType[*unix.NotSigned](err); ok {
			d.forbidden = true
			d.wrong("signature", "", "can't authenticate to the daemon: %v", unsigned) // the error describes what to do
			return false
		}
		switch late := errors.Is(err, context.DeadlineExceeded); {
		case late && d.Daemon != nil:
			return d.unreached("http", "", "%v", d.Silent(checkTime)) // the error describes what to do
		case late:
			return d.unreached("http", "the server may be suspended or have too much to do, or it isn't an HTTP server", "it doesn't answer within %v", checkTime)
		}
		return d.unreached("http", "what listens there isn't an HTTP server; check the address", "%v", err)
	}
	d.checkCertificate(response)
	switch response.StatusCode {
	case http.StatusOK:
		d.well("http", "it answers, and reports that it is healthy")
	case http.StatusForbidden:
		d.doubtful("http", "the server doesn't accept this host name: kernos serve --allow-host", "it refuses the host %q", response.Request.Host)
	default:
		d.well("http", "it answers (it has no /healthz: status %d)", response.StatusCode)
	}
	d.checkClock(response)
	if ready, _, err := d.Target.Get(ctx, "/readyz"); err == nil && ready.StatusCode == http.StatusServiceUnavailable {
		d.doubtful("http", "it is starting or stopping, or its store doesn't work: look into its log", "it reports that it isn't ready")
	}
	return true
}

// expiring is how long before its end a certificate is remarked on.
const expiring = 14 * 24 * time.Hour

// checkCertificate reports the certificate of the server.
func (d *doctor) checkCertificate(r *http.Response) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return
	}
	c := r.TLS.PeerCertificates[0]
	text := fmt.Sprintf("%s; the certificate is for %s, signed by %s, valid until %s", tls.VersionName(r.TLS.Version), server.NamesOf(c), server.IssuerOf(c), server.Day(c.NotAfter))
	if time.Until(c.NotAfter) < expiring {
		d.doubtful("tls", "give the server a new certificate: kernos serve reads --tls-cert again when it changes", "%s", text)
		return
	}
	d.well("tls", "%s", text)
}

// skew is how far clocks may be apart. A Date header has whole seconds.
const skew = 5 * time.Second

func (d *doctor) checkClock(r *http.Response) {
	there, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		d.well("clock", "the server doesn't send its time")
		return
	}
	apart := time.Since(there).Round(time.Second)
	if apart > skew || apart < -skew {
		d.doubtful("clock", "set the clocks, for instance with NTP: deadlines and timestamps are off", "the server's clock differs from this one by %v", apart)
		return
	}
	d.well("clock", "the server has the same time")
}

// checkWebSocket opens one.
func (d *doctor) checkWebSocket(ctx context.Context) bool {
	conn, err := client.Dial(ctx, d.Target)
	if err == nil {
		d.conn = conn
		d.well("websocket", "it opens")
		return true
	}
	d.unreachable = true
	advice := "no server of this protocol at this path; it is / or /ws with kernos"
	if r, ok := errors.AsType[*client.Refused](err); ok && r.Forbidden() {
		d.unreachable, d.forbidden = false, true
		advice = "give the server's token, which kernos token prints on its machine: " + d.Setting("token-file", "KERNOS_TOKEN")
		if r.Status == http.StatusForbidden {
			advice = "the server doesn't accept this host or origin: kernos serve --allow-host, --allow-origin"
		}
	}
	if tls := d.TLSAdvice(err); tls != "" {
		advice = tls
	}
	d.wrong("websocket", advice, "%v", err)
	return false
}

// lowDisk is the free space below which the disk is remarked on.
const lowDisk = 1 << 30

// checkDisk checks the disk with the state of this user's daemon.
func (d *doctor) checkDisk() {
	if d.Daemon == nil {
		return
	}
	dir, _, _ := d.Daemon.Nearest() // the directory may not exist yet
	var s systemcalls.Statfs_t
	if err := systemcalls.Statfs(dir, &s); err != nil {
		d.wrong("disk", "check that the directory is there and yours", "%s: %v", dir, err)
		return
	}
	free := int64(s.Bavail) * int64(s.Bsize)
	text := fmt.Sprintf("%s are free for %s", terminal.Bytes(free), d.Daemon.Dir)
	switch {
	case free < lowDisk/16:
		d.wrong("disk", "make room: writing will be refused soon", "%s", text)
	case free < lowDisk:
		d.doubtful("disk", "make room, or keep less (kernos serve --journal-size)", "%s", text)
	default:
		d.well("disk", "%s", text)
	}
}
