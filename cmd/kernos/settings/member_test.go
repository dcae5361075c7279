package settings

import (
	"io"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"kernos/transport/unix"
)

// serveWith returns the settings of kernos serve with some arguments.
func serveWith(t *testing.T, args ...string) *Serve {
	t.Helper()
	c := &cobra.Command{}
	c.SetErr(io.Discard)
	s := AddServeFlags(c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(c, "test"); err != nil {
		t.Fatal(err)
	}
	return s
}

// A home that has joined a cluster has the settings of that again, unless they are given, until it leaves.
func TestAMemberHasItsSettingsAgain(t *testing.T) {
	t.Setenv("KERNOS_HOME", t.TempDir())
	home, err := Home()
	if err != nil {
		t.Fatal(err)
	}
	if s := serveWith(t); s.Cluster != nil {
		t.Error("a home without a cluster is a node of one")
	}
	first := serveWith(t, "--cluster-listen", "127.0.0.1:1", "--cluster-peers", "127.0.0.1:1,127.0.0.1:2", "--cluster-secret", "s")
	if first.Cluster == nil {
		t.Fatal("it is no node")
	}
	if err := first.Join(home, "a"); err != nil {
		t.Fatal(err)
	}
	if !home.IsMember() {
		t.Error("it is no member")
	}
	for _, args := range [][]string{nil, {"--again"}} {
		s := serveWith(t, args...)
		if c := s.Cluster; c == nil || c.Name != "a" || c.Listen != "127.0.0.1:1" || !slices.Equal(c.Peers, []string{"127.0.0.1:1", "127.0.0.1:2"}) || c.Secret == "s" {
			t.Errorf("%v: %+v", args, c)
		}
	}
	if c := serveWith(t, "--cluster-name", "b").Cluster; c.Name != "b" || c.Listen != "127.0.0.1:1" {
		t.Errorf("%+v", c)
	}
	if c := serveWith(t, "--cluster", "nats://127.0.0.1:4").Cluster; c.Listen != "" || c.Secret != "" || len(c.Servers) != 1 {
		t.Errorf("%+v", c)
	}
	all, err := Effective(home, unix.Info{})
	if err != nil || !slices.Contains(all, Setting{Name: "cluster-name", Value: "a", From: "cluster.json"}) {
		t.Errorf("%+v, %v", all, err)
	}
	if left, err := Leave(home); err != nil || len(left) > 0 || home.IsMember() {
		t.Errorf("%v, %v", left, err)
	}
	if s := serveWith(t); s.Cluster != nil {
		t.Error("it still is a node")
	}
}
