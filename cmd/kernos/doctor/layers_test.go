package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/daemon"
)

func TestASilentServerIsNotTakenForAnotherProgram(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, c := range []struct {
		name    string
		daemon  *server.Daemon
		explain string
	}{
		{"the daemon of this user", &server.Daemon{Home: daemon.Home{Dir: t.TempDir()}}, "it may have been suspended (kill -CONT"},
		{"another server", nil, "the server may be suspended or have too much to do, or it isn't an HTTP server"},
	} {
		d := &doctor{Server: &server.Server{Target: client.Target{URL: "ws://127.0.0.1:1/"}, Daemon: c.daemon}, quiet: true}
		if d.checkHTTP(late) || !d.unreachable || !strings.Contains(d.findings[0].Text+d.findings[0].Advice, c.explain) {
			t.Errorf("%s: %+v", c.name, d.findings)
		}
	}
}
