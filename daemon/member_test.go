package daemon

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kernos/cluster/clustertest"
	"kernos/internal/testkit"
	"kernos/message"
	"kernos/store/blobs"
	"kernos/transport/unix"
)

// A testMember is a node that is served until it is stopped.
type testMember struct {
	*Member
	t    *testing.T
	stop func()
}

// serveMember serves a node of a cluster on one server.
func serveMember(t *testing.T, servers *clustertest.Servers, name string) *testMember {
	t.Helper()
	m, err := OpenMember(&Options{
		Home: filepath.Join(t.TempDir(), name), Socket: &Socket{}, Web: &Web{Address: "127.0.0.1:0"}, Cluster: &Cluster{Name: name, Servers: []string{servers.ServerURL(0)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.ShareEngine(m.home.State()); err != nil {
		t.Fatal(err)
	}
	m.replicas = 1
	served := make(chan error, 1)
	go func() { served <- m.Serve(context.Background()) }()
	o := &testMember{m, t, sync.OnceFunc(func() {
		m.Shutdown()
		if err := <-served; err != nil {
			t.Errorf("the node %s ended with %v", name, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(o.stop)
	return o
}

// ask sends a message over the socket.
func (m *testMember) ask(kind message.Kind, t message.Type, data string) string {
	m.t.Helper()
	conn, err := new(unix.Dialer).Dial(m.t.Context(), m.lock.Path())
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answer, err := conn.Ask(m.t.Context(), message.Message{Kind: kind, Type: t, Data: []byte(data)})
	if err != nil {
		m.t.Fatal(err)
	}
	return string(answer.Data)
}

func (m *testMember) waitFor(what, text string) {
	m.t.Helper()
	testkit.Until(m.t, m.name+": "+what, func() bool { return strings.Contains(m.ask(message.KindQuery, "Cluster.Status", `{}`), text) })
}

// Each node answers everything, as the same kernel; when its owner stops, another node has it.
func TestEachNodeAnswers(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", testkit.ShortDir(t))
	servers := clustertest.Shared(t, 1)
	a := serveMember(t, servers, "a")
	a.waitFor("it owns", `"owner":"a"`)
	b := serveMember(t, servers, "b")
	b.waitFor("it knows the owner", `"owner":"a"`)

	b.ask(message.KindCommand, "Memory.Set", `{"key":"k","value":"milk"}`)
	for _, m := range []*testMember{a, b} {
		if got := m.ask(message.KindQuery, "Memory.Get", `{"key":"k"}`); got != `"milk"` {
			t.Errorf("%s answers %s", m.name, got)
		}
		if got := m.ask(message.KindQuery, "Kernel.Status", `{}`); !strings.Contains(got, `"node":"`+m.name+`"`) {
			t.Errorf("the status of %s is %s", m.name, got)
		}
	}

	// Over TCP, one token opens all.
	token, err := os.ReadFile(a.home.Token())
	if err != nil {
		t.Fatal(err)
	}
	if other, err := os.ReadFile(b.home.Token()); err != nil || string(other) != string(token) {
		t.Errorf("another token on another node, %v", err)
	}
	for key, want := range map[string]string{strings.TrimSpace(string(token)): `"milk"`, "another": `"name":"token_required"`} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.address()+"/v1/call/memory/get", strings.NewReader(`{"key":"k"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if !strings.Contains(string(body), want) {
			t.Errorf("got %s, want %s", body, want)
		}
	}

	if got := a.ask(message.KindQuery, "Cluster.Check", `{}`); !strings.Contains(got, `"equal":true`) {
		t.Errorf("the copies: %s", got)
	}
	if got := a.ask(message.KindCommand, "Cluster.Move", `{"node":"b"}`); got != `{"node":"b","done":false}` {
		t.Errorf("moving: %s", got)
	}
	b.waitFor("it owns", `"owner":"b"`)
	if got := a.ask(message.KindQuery, "Memory.Get", `{"key":"k"}`); got != `"milk"` {
		t.Errorf("after the move: %s", got)
	}
	b.ask(message.KindCommand, "Syscall.Shutdown", `{}`)
	b.stop()
	a.waitFor("it owns", `"owner":"a"`)
	if got := a.ask(message.KindQuery, "Memory.Get", `{"key":"k"}`); got != `"milk"` {
		t.Errorf("after the end of the other node: %s", got)
	}
	a.stop()

	// A home that has joined isn't opened alone until it has left.
	if err := os.WriteFile(a.home.Membership(), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(&Options{Home: a.home.Dir, Unrecorded: true}); err != ErrMember {
		t.Errorf("it is opened: %v", err)
	}
	if err := a.home.LeaveCluster(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(a.home.Membership()); err != nil {
		t.Fatal(err)
	}
	d, err := Open(&Options{Home: a.home.Dir})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := d.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: "Memory.Get", Data: []byte(`{"key":"k"}`)}, nil)
	if string(got.Data) != `"milk"` {
		t.Errorf("after leaving: %s", got.Data)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheSettingsOfANode(t *testing.T) {
	for _, c := range []struct {
		Cluster
		want string
	}{
		{Cluster{}, "cluster-listen"},
		{Cluster{Listen: "a:1", Peers: []string{"a:1", "b:1"}}, "cluster-secret"},
		{Cluster{Listen: "a:1", Servers: []string{"nats://a:1"}}, "cluster"},
		{Cluster{Servers: []string{"context:"}}, "cluster"},
		{Cluster{Servers: []string{"here"}}, "cluster"},
		{Cluster{Listen: "a:1", Peers: []string{"b"}, Secret: "s"}, "cluster-peers"},
		{Cluster{Listen: "a:1", Name: "a b"}, "cluster-name"},
		{Cluster{Listen: "a:1"}, ""},
		{Cluster{Servers: []string{"context:prod"}}, ""},
		{Cluster{Listen: "a:1", Peers: []string{"a:1", "b:1", "c:1"}, Secret: "s"}, ""},
	} {
		err := c.check()
		wrong, _ := err.(*OptionError)
		if (err == nil) != (c.want == "") || wrong != nil && wrong.Name != c.want {
			t.Errorf("%+v: %v, want %q", c.Cluster, err, c.want)
		}
	}
}

// A program puts large data into the folder of its own home, also if another node owns the kernel: the owner gets it from there.
func TestALargeValueThroughAnotherNode(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", testkit.ShortDir(t))
	servers := clustertest.Shared(t, 1)
	a := serveMember(t, servers, "a")
	a.waitFor("it owns", `"owner":"a"`)
	b := serveMember(t, servers, "b")
	b.waitFor("it knows the owner", `"owner":"a"`)
	dir, err := blobs.New(b.home.blobs())
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("large ", 200_000)
	blob, err := dir.Put([]byte(large))
	if err != nil {
		t.Fatal(err)
	}
	b.ask(message.KindCommand, "Memory.Set", `{"key":"k","as":"text","valueRef":{"scheme":"file","path":"`+blob.Path+`"}}`)
	dir, err = blobs.New(a.home.blobs())
	if err != nil {
		t.Fatal(err)
	}
	if data, err := dir.Read(blob.Hash); err != nil || string(data) != large {
		t.Errorf("the owner has %d bytes of the blob, %v", len(data), err)
	}
	absent := blobs.Sum([]byte("absent"))
	if got := b.ask(message.KindCommand, "Memory.Set", `{"key":"k","valueRef":{"scheme":"file","path":"`+dir.Path(absent)+`"}}`); !strings.Contains(got, `"code":404`) {
		t.Errorf("a blob that no node has: %s", got)
	}
	b.stop()
	a.stop()
}
