package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"kernos/cluster/clustertest"
	"kernos/cluster/server"
	"kernos/internal/testkit"
	"kernos/store/replicated/jetstream"
)

// contextOf writes a context of the nats command.
func contextOf(t *testing.T, name string, settings map[string]any) {
	t.Helper()
	dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// guarded starts a server with a user and a password, and returns its address.
func guarded(t *testing.T) string {
	t.Helper()
	return run(t, &natsserver.Options{Host: "127.0.0.1", Port: -1, Username: "u", Password: "p", NoLog: true, NoSigs: true})
}

// run runs a server, and returns its address.
func run(t *testing.T, o *natsserver.Options) string {
	t.Helper()
	s, err := natsserver.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	testkit.Until(t, "the server listens", func() bool { return s.ReadyForConnections(time.Second) })
	return s.ClientURL()
}

func TestContextsOfTheNatsCommand(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	at := guarded(t)
	contextOf(t, "right", map[string]any{"url": at, "user": "u", "password": "p", "description": "x", "color_scheme": ""})
	contextOf(t, "wrong", map[string]any{"url": at, "user": "u", "password": "q"})
	contextOf(t, "nowhere", map[string]any{"user": "u", "password": "p"})
	contextOf(t, "domain", map[string]any{"url": at, "jetstream_domain": "hub"})
	contextOf(t, "half", map[string]any{"url": at, "cert": "file"})
	contextOf(t, "creds", map[string]any{"url": at, "creds": "~/none.creds"})
	contextOf(t, "ca", map[string]any{"url": at, "ca": "/none.pem"})

	for _, o := range []server.External{{Context: "right"}, {Context: "nowhere", Servers: []string{at}}} {
		nc, err := server.Connect(patient(t), o)
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	}
	for want, o := range map[string]server.External{
		"refuse these credentials":    {Context: "wrong"},
		"no server of NATS is named":  {Context: "nowhere"},
		"has jetstream_domain":        {Context: "domain"},
		"needs its key":               {Context: "half"},
		"none.creds":                  {Context: "creds"},
		"none.pem":                    {Context: "ca"},
		"has no context \"absent\"":   {Context: "absent"},
		"isn't the name of a context": {Context: "../right"},
	} {
		if nc, err := server.Connect(patient(t), o); err == nil {
			nc.Close()
			t.Errorf("%+v is connected; want %q", o, want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
}

func TestConnectWaitsForServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := server.Connect(ctx, server.External{Servers: []string{"nats://" + testkit.Address(t)}})
	if err == nil || !strings.Contains(err.Error(), "check the address, and that nats-server runs there") {
		t.Errorf("got %v", err)
	}
}

func TestWhatServersOutsideDoNotPromise(t *testing.T) {
	servers := clustertest.Shared(t, 1)
	nc, err := server.Connect(patient(t), server.External{Servers: []string{servers.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stream, err := jetstream.Open(patient(t), nc, jetstream.Options{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	warnings := strings.Join(stream.Warnings(patient(t)), "\n")
	if !strings.Contains(warnings, "is kept by 1 server:") || !strings.Contains(warnings, "can't be seen whether the servers have sync_interval: always") {
		t.Errorf("warnings: %s", warnings)
	}
}

// TestTheSyncOfServersOutside asks servers whose account may know.
func TestTheSyncOfServersOutside(t *testing.T) {
	for always, want := range map[string]string{"always": "", "2m": "the server outside doesn't have sync_interval: always"} {
		file := filepath.Join(t.TempDir(), "nats.conf")
		config := fmt.Sprintf(`
			listen: "127.0.0.1:-1", server_name: outside
			jetstream { store_dir: %q, sync_interval: %s }
			accounts {
				SYS { users: [{user: s, password: s}], exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response_type: stream}] }
				APP { jetstream: enabled, users: [{user: a, password: a}], imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}] }
			}
			system_account: SYS`, t.TempDir(), always)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := natsserver.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o.NoLog, o.NoSigs = true, true
		url := run(t, o)
		nc, err := server.Connect(patient(t), server.External{Servers: []string{strings.Replace(url, "://", "://a:a@", 1)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		stream, err := jetstream.Open(patient(t), nc, jetstream.Options{Replicas: 1})
		if err != nil {
			t.Fatal(err)
		}
		warnings := strings.Join(stream.Warnings(patient(t)), "\n")
		if synced := !strings.Contains(warnings, "sync_interval"); synced != (want == "") || !strings.Contains(warnings, want) {
			t.Errorf("%s: %s", always, warnings)
		}
	}
}

// TestServersOutsideWithTLS connects with a certificate to servers that want one.
func TestServersOutsideWithTLS(t *testing.T) {
	authority := testkit.NewAuthority(t, "ours")
	forever := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	cert, key := authority.Certify(t, forever, "127.0.0.1")
	config, err := natsserver.GenTLSConfig(&natsserver.TLSConfigOpts{CertFile: cert, KeyFile: key, CaFile: authority.File, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	url := run(t, &natsserver.Options{Host: "127.0.0.1", Port: -1, TLS: true, TLSVerify: true, TLSConfig: config, NoLog: true, NoSigs: true})
	mine, myKey := authority.Certify(t, forever, "client")
	right := server.External{Servers: []string{url}, CA: authority.File, Certificate: mine, Key: myKey}
	nc, err := server.Connect(patient(t), right)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	stranger := right
	stranger.CA = testkit.NewAuthority(t, "another").File
	anonymous := right
	anonymous.Certificate, anonymous.Key = "", ""
	for _, o := range []server.External{stranger, anonymous} {
		if nc, err := server.Connect(patient(t), o); err == nil {
			nc.Close()
			t.Errorf("%+v is connected", o)
		} else if !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v", err)
		}
	}
}
