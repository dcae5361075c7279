package server_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kernos/cluster/clustertest"
	"kernos/cluster/server"
	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/replicated"
	"kernos/store/replicated/jetstream"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	t.Cleanup(cancel)
	return ctx
}

// secret makes a secret by its file.
func secret(t testing.TB) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(server.NewSecret()), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := server.ReadSecret(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts a server.
func start(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := server.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// addresses returns addresses for servers.
func addresses(t testing.TB, count int) []string {
	t.Helper()
	var all []string
	for range count {
		all = append(all, testkit.Address(t))
	}
	return all
}

// TestThreeServersInside runs three servers with TLS: they keep a stream, go on without one of them, and don't let in
// a server with another secret, which says what is wrong.
func TestThreeServersInside(t *testing.T) {
	peers, key := addresses(t, 3), secret(t)
	var servers []*server.Server
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for i, address := range peers {
		o := server.Options{Name: fmt.Sprintf("node-%d", i), Listen: address, Peers: peers, Dir: dirs[i], Secret: key, TLS: true}
		servers = append(servers, start(t, o))
	}
	for i, s := range servers {
		if err := s.Ready(patient(t)); err != nil {
			t.Fatal(err)
		}
		if s.Addr() != peers[i] || !s.Secure() {
			t.Errorf("the server %d is at %s, with TLS: %t", i, s.Addr(), s.Secure())
		}
	}
	nc, err := servers[0].Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stream, err := jetstream.Open(patient(t), nc, jetstream.Options{Synced: true})
	if err != nil {
		t.Fatal(err)
	}
	log := stream.Log(store.DefaultOrigin)
	after, err := log.Append(patient(t), 0, replicated.Entry{Epoch: 1, First: 1, Groups: [][]byte{[]byte("one")}})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "each server knows the two others", func() bool {
		for _, s := range servers {
			status := s.Status()
			if len(status.Peers) != 2 || status.Leader == "" || status.Problem != "" || !status.Peers[0].Connected || !status.Peers[1].Connected {
				return false
			}
		}
		return true
	})
	if warnings := stream.Warnings(patient(t)); len(warnings) > 0 {
		t.Errorf("warnings: %q", warnings)
	}

	var notes, strangers testkit.Notes
	servers[2].Stop()
	if _, err := log.Append(patient(t), after, replicated.Entry{Epoch: 1, First: 2, Groups: [][]byte{[]byte("two")}}); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the others miss the server that was stopped", func() bool {
		status := servers[0].Status()
		return status.Missing == 1 && strings.Contains(status.Problem, "can't be reached")
	})

	o := server.Options{Name: "stranger", Listen: peers[2], Peers: peers, Secret: secret(t), TLS: true, Log: strangers.Logger()}
	stranger := start(t, o)
	testkit.Until(t, "the stranger knows that its secret is another one", func() bool {
		status := stranger.Status()
		return status.Missing == 2 && strings.Contains(status.Problem, "another cluster secret")
	})
	if !strangers.Has("has another cluster secret than this node: copy the secret file") {
		t.Errorf("the stranger's log: %s", strangers.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := stranger.Ready(ctx); err == nil || !strings.Contains(err.Error(), "another cluster secret") {
		t.Errorf("Ready: %v", err)
	}
	stranger.Stop()

	back := start(t, server.Options{Name: "node-2", Listen: peers[2], Peers: peers, Dir: dirs[2], Secret: key, TLS: true, Log: notes.Logger()})
	if err := back.Ready(patient(t)); err != nil {
		t.Fatal(err)
	}
	if !notes.Has("nats-server", "Starting nats-server") {
		t.Errorf("the log lacks the server's: %s", notes.String())
	}
}

func TestAWrongSecretOnOneMachine(t *testing.T) {
	peers := addresses(t, 2)
	var notes testkit.Notes
	one := start(t, server.Options{Name: "one", Listen: peers[0], Peers: peers, Secret: secret(t), Log: notes.Logger()})
	two := start(t, server.Options{Name: "two", Listen: peers[1], Peers: peers, Secret: secret(t)})
	for _, s := range []*server.Server{one, two} {
		testkit.Until(t, "each knows that the secrets differ", func() bool {
			return strings.Contains(s.Status().Problem, "another cluster secret")
		})
		if s.Secure() {
			t.Error("the servers use TLS on one machine")
		}
	}
	if !notes.Has("another cluster secret") {
		t.Errorf("the log: %s", notes.String())
	}
}

func TestAServerAlone(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		s, err := server.Start(server.Options{Name: "alone", Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		nc, err := s.Connect()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(patient(t)); err != nil {
			t.Fatal(err)
		}
		stream, err := jetstream.Open(patient(t), nc, jetstream.Options{Replicas: 1, Synced: true})
		if err != nil {
			t.Fatal(err)
		}
		last, err := stream.Log(store.DefaultOrigin).Last(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if last.Next() != uint64(round) {
			t.Errorf("round %d: the log ends before %d", round, last.Next())
		}
		e := replicated.Entry{Epoch: 1, First: last.Next(), Groups: [][]byte{nil}}
		if _, err := stream.Log(store.DefaultOrigin).Append(patient(t), last.Sequence, e); err != nil {
			t.Fatal(err)
		}
		if w := stream.Warnings(patient(t)); len(w) != 1 || !strings.Contains(w[0], "is kept by 1 server:") {
			t.Errorf("warnings: %q", w)
		}
		if s.Addr() != "" || s.Status().Problem != "" {
			t.Errorf("the server listens on %q: %+v", s.Addr(), s.Status())
		}
		nc.Close()
		s.Stop()
	}
}

func TestErrorsOfStartSayWhatToDo(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	taken := busy.Addr().String()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]server.Options{
		"is in use":                    {Listen: taken, Peers: []string{taken}, Secret: secret(t)},
		"isn't one of this machine":    {Listen: "192.0.2.1:6222", Peers: []string{taken}, Secret: secret(t)},
		"give it as HOST:PORT":         {Listen: "127.0.0.1", Peers: []string{taken}, Secret: secret(t)},
		"the port \"0\"":               {Listen: "127.0.0.1:0", Peers: []string{taken}, Secret: secret(t)},
		"the address of a node, \"x\"": {Listen: testkit.Address(t), Peers: []string{"x"}, Secret: secret(t)},
		"kernos cluster init":          {Listen: taken, Peers: []string{taken}},
		"directory for the streams":    {Dir: filepath.Join(file, "streams")},
	} {
		o.Name = "node"
		if o.Dir == "" {
			o.Dir = t.TempDir()
		}
		if s, err := server.Start(o); err == nil {
			s.Stop()
			t.Errorf("%+v was started; want %q", o, want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	text, other := server.NewSecret(), server.NewSecret()
	if text == other {
		t.Error("two secrets are the same")
	}
	for want, c := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"isn't a secret file":        {text[:len(text)-3], 0o600},
		"it is one line that begins": {"kernos-cluster-2:" + text, 0o600},
		"can be read by other users": {text, 0o640},
		"chmod 600":                  {text, 0o604},
	} {
		file := filepath.Join(dir, "secret")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := server.ReadSecret(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
	if _, err := server.ReadSecret(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "kernos cluster init") {
		t.Errorf("got %v", err)
	}
}
