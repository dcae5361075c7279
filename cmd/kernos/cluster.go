package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	capcluster "kernos/capability/cluster"
	"kernos/capability/lifecycle"
	natsserver "kernos/cluster/server"
	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/durable"
	"kernos/internal/exit"
	"kernos/message"
)

// asNode asks the node that serves this home.
var asNode = server.Options{Node: true}

func clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Run one kernel on several machines, and see how they are",
		Long: `A kernel in a cluster outlives its machine: one node owns it, others follow what it writes, and one
of them takes over when it is gone. Each node answers everything: what comes to another node than
the owner is passed on.

kernos serve --cluster-listen and --cluster-peers make a node, with a server of NATS inside, and
kernos serve --cluster one on servers outside. kernos docs cluster has more.`,
		Example: `  kernos cluster init
  kernos serve --cluster-listen 10.0.0.1:6222 --cluster-peers 10.0.0.1:6222,10.0.0.2:6222,10.0.0.3:6222
  kernos cluster status
  kernos cluster move b
  kernos cluster check`,
		Args: ownCommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(clusterInitCommand(), clusterStatusCommand(), clusterMoveCommand(), clusterCheckCommand(), clusterForgetCommand(), clusterLeaveCommand())
	return c
}

func clusterInitCommand() *cobra.Command {
	var file string
	c := prints(&cobra.Command{
		Use:   "init",
		Short: "Make the secret by which the nodes of a cluster know each other",
		Long: `Make the secret by which the nodes of a cluster with servers inside know each other, in the file
cluster.secret of the home unless --cluster-secret names another one. All nodes have the same: copy
the file to each machine, to the same place. Who has the file is the owner of
all that the cluster keeps.`,
		Example: "  kernos cluster init\n  scp ~/.local/share/kernos/cluster.secret b:.local/share/kernos/",
		Args:    noArguments,
	}, "text", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		home, err := settings.UsableHome()
		if err == nil {
			err = home.Make()
		}
		if err != nil {
			return settings.Explain(err)
		}
		name := cmp.Or(file, settings.Secret(home))
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf("%s exists already; nodes that have it need no other, and removing it makes room for a new one", name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return exit.Wrap(err)
		}
		if err := durable.WriteFile(name, []byte(natsserver.NewSecret())); err != nil {
			return exit.Wrap(err)
		}
		return writeValue(c.Context(), s, o, map[string]string{"secret": name}, func() error {
			return s.Line(name + " has the secret now: copy it to the other machines, and start each with kernos serve --cluster-listen HOST:6222 --cluster-peers A:6222,B:6222,C:6222")
		})
	})
	c.Flags().StringVar(&file, "cluster-secret", "", "the `FILE` to make (default cluster.secret in the home directory)")
	return c
}

func clusterStatusCommand() *cobra.Command {
	return views(&cobra.Command{
		Use:   "status",
		Short: "Show the nodes of the cluster, as this one sees them",
		Args:  noArguments,
	}, asNode, func(ctx context.Context, v *line.View) error {
		data, err := server.Send(ctx, v.Call, message.KindQuery, capcluster.StatusType, struct{}{}, nil)
		if err != nil {
			return exit.Wrap(outsideCluster(err))
		}
		return v.Write(ctx, data, shows(v, capcluster.StatusType, func(c *lifecycle.Cluster, s *terminal.Screen) error {
			rows := make([][]string, len(c.Nodes))
			for i, n := range c.Nodes {
				name := n.Name
				if n.Name == c.Node {
					name += " (this one)"
				}
				notes := n.Problem
				if len(n.Lacks) > 0 {
					notes = strings.TrimPrefix(notes+"; lacks the sealing keys "+strings.Join(n.Lacks, ", "), "; ")
				}
				rows[i] = []string{name, n.State, strconv.FormatUint(n.Behind, 10), n.Address, notes}
			}
			err := s.Table([]string{"NODE", "STATE", "BEHIND", "ADDRESS", "NOTE"}, rows)
			err = cmp.Or(err, s.Line("servers: "+strings.Join(c.Servers, ", ")))
			for _, w := range append(c.Warnings, c.Problem) {
				if w != "" && err == nil {
					err = s.Line("warning: " + w)
				}
			}
			return err
		}))
	}, "text")
}

// outsideCluster explains the error of a kernel that doesn't have the syscalls of a cluster.
func outsideCluster(err error) error {
	if e, ok := errors.AsType[*message.Error](err); ok && e.Code == 404 {
		return &exit.Error{Status: exit.Failure, Cause: errors.New("this kernel runs in no cluster; kernos cluster --help says how one is made")}
	}
	return err
}

func clusterMoveCommand() *cobra.Command {
	return views(&cobra.Command{
		Use: "move NODE", Short: "Hand the kernel to another node", Args: one("name the node: kernos cluster move NODE; kernos cluster status shows them"),
	}, asNode, func(ctx context.Context, v *line.View) error {
		data, err := server.Send(ctx, v.Call, message.KindCommand, capcluster.MoveType, map[string]string{"node": v.Args[0]}, nil)
		if err != nil {
			return exit.Wrap(outsideCluster(err))
		}
		var reply struct {
			Node string `json:"node"`
			Done bool   `json:"done"`
		}
		if err := server.Decode(capcluster.MoveType, data, &reply); err != nil {
			return err
		}
		if !reply.Done {
			if err := untilOwner(ctx, v, reply.Node); err != nil {
				return err
			}
			data = json.RawMessage(fmt.Sprintf(`{"node":%q,"done":true}`, reply.Node))
		}
		return v.Write(ctx, data, func(json.RawMessage) error { return v.Screen.Line(reply.Node + " owns the kernel now") })
	}, "text")
}

// untilOwner waits until a node owns the kernel.
func untilOwner(ctx context.Context, v *line.View, name string) error {
	return server.Retry(ctx, server.EndTime(), func(ctx context.Context) (again bool, err error) {
		var now lifecycle.Cluster
		err = server.Read(ctx, v.Call, message.KindQuery, capcluster.StatusType, struct{}{}, &now)
		if err == nil && now.Owner != name {
			err = exit.Wrap(fmt.Errorf("%s doesn't own the kernel yet; kernos cluster status shows the nodes, and the log of %s has the reason", name, now.Node))
		}
		return err != nil, err
	})
}

func clusterForgetCommand() *cobra.Command {
	return views(&cobra.Command{
		Use: "forget NODE", Short: "Take a node that is away for good out of the status", Args: one("name the node: kernos cluster forget NODE; kernos cluster status shows them"),
	}, asNode, func(ctx context.Context, v *line.View) error {
		data, err := server.Send(ctx, v.Call, message.KindCommand, capcluster.ForgetType, map[string]string{"node": v.Args[0]}, nil)
		if err != nil {
			return exit.Wrap(outsideCluster(err))
		}
		return v.Write(ctx, data, shows(v, capcluster.ForgetType, func(_ *struct{}, s *terminal.Screen) error {
			return s.Line(v.Args[0] + " is forgotten")
		}))
	}, "text")
}

func clusterCheckCommand() *cobra.Command {
	return views(&cobra.Command{
		Use:   "check",
		Short: "Compare the copies of all nodes at one place in the log",
		Long: `Compare the copies of all nodes at one place in the log. The status is 1 if they differ, or if a
node couldn't be asked.`,
		Args: noArguments,
	}, asNode, func(ctx context.Context, v *line.View) error {
		data, err := server.Send(ctx, v.Call, message.KindQuery, capcluster.CheckType, struct{}{}, nil)
		if err != nil {
			return exit.Wrap(outsideCluster(err))
		}
		var found capcluster.Comparison
		if err := server.Decode(capcluster.CheckType, data, &found); err != nil {
			return err
		}
		err = v.Write(ctx, data, shows(v, capcluster.CheckType, func(c *capcluster.Comparison, s *terminal.Screen) error {
			rows := make([][]string, len(c.Nodes))
			for i, n := range c.Nodes {
				rows[i] = []string{n.Name, n.Checksum, n.Problem}
			}
			if err := s.Table([]string{"NODE", "CHECKSUM", "PROBLEM"}, rows); err != nil {
				return err
			}
			switch {
			case !c.Equal:
				return s.Line("the copies differ")
			case slices.ContainsFunc(c.Nodes, func(n capcluster.Checksum) bool { return n.Problem != "" }):
				return s.Line("the copies that were compared are equal; not all of them were compared")
			}
			return s.Line("all copies are equal")
		}))
		for _, n := range found.Nodes {
			found.Equal = found.Equal && n.Problem == ""
		}
		if err == nil && !found.Equal {
			return &exit.Error{Status: exit.Failure}
		}
		return err
	}, "text")
}

func clusterLeaveCommand() *cobra.Command {
	return prints(&cobra.Command{
		Use:   "leave",
		Short: "End the membership of this home in its cluster",
		Long: `End the membership of this home in its cluster: its copy becomes the state of a home of one
machine, as of what the servers had accepted when its node ran last. The node must be stopped.
The other nodes are not changed; kernos cluster forget NODE takes this one out of their status.`,
		Args: noArguments,
	}, "text", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		home, err := settings.UsableHome()
		if err != nil {
			return err
		}
		if !home.IsMember() {
			return exit.Wrap(errors.New("this home is a member of no cluster"))
		}
		if d, err := server.DaemonOf(home); err != nil {
			return exit.Wrap(err)
		} else if info, running := d.Inspect(); running {
			return exit.Wrap(fmt.Errorf("the node runs (process %d): end it first with kernos stop", info.PID))
		}
		if err := home.LeaveCluster(); err != nil {
			return exit.Wrap(err)
		}
		left, err := settings.Leave(home)
		if err != nil {
			return exit.Wrap(err)
		}
		if len(left) > 0 {
			fmt.Fprintf(s.Err, "kernos: remove %s, or the next kernos serve joins again\n", strings.Join(left, ", "))
		}
		return writeValue(c.Context(), s, o, map[string]any{"left": true, "home": home.Dir}, func() error {
			return s.Line(home.Dir + " is the home of one machine now")
		})
	})
}
