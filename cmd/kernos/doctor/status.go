package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kernos/capability/lifecycle"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
)

// Unanswered explains an error of a server that has not answered in time.
// Other errors are as they were.
func Unanswered(err error, contextName string, timeout time.Duration) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	server, findErr := server.FindServer(contextName, "")
	if findErr != nil {
		return findErr
	}
	return server.Silent(timeout)
}

// DescribeStatus describes the status of a daemon.
func DescribeStatus(s *lifecycle.Status) string {
	var b strings.Builder
	up := time.Duration(s.Uptime * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(&b, "kernos %s serves %s, for %v\n", visible.Text(s.Version), visible.Text(s.Origin), up)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, visible.Text(fmt.Sprintf(format, args...)))
	}
	row("process", "%d", s.PID)
	row("home", "%s", s.Home)
	if s.Files != "" {
		row("os://", "%s", s.Files)
	}
	if s.Directory != "" {
		row("directory", "%s (its folder os is a part of os://, for this run)", s.Directory)
	}
	for _, f := range s.Trusted {
		row("trusted", "%s", f)
	}
	for _, l := range s.Listening {
		row("listening", "%s", l)
	}
	for _, line := range describeCluster(s.Cluster) {
		row("cluster", "%s", line)
	}
	if s.Cluster != nil && s.Cluster.Owner != s.Cluster.Node {
		row("connections", "%d", s.Connections)
		return strings.TrimSuffix(b.String(), "\n") // the rest is at the owner
	}
	connections := strconv.Itoa(s.Connections)
	if s.Refused > 0 {
		connections += fmt.Sprintf(", %d refused", s.Refused)
	}
	row("connections", "%s", connections)
	row("messages", "%d, %.0f in the last second, %.0f in the last minute", s.Messages.Total, s.Messages.PerSecond, s.Messages.PerMinute)
	row("errors", "%d", s.Errors)
	row("under way", "%s, %s to be sent", terminal.Count(s.InFlight, "slow request", "slow requests"), terminal.Count(s.Waiting, "answer", "answers"))
	if s.Queued > 0 {
		row("waiting", "%s of %s, which have as many slow requests as they may", terminal.Count(s.Queued, "message", "messages"), terminal.Count(s.Held, "connection", "connections"))
	}
	if s.Throttled > 0 {
		row("throttled", "%s above the frame rate", terminal.Count(s.Throttled, "connection", "connections"))
	}
	for _, h := range s.Handlers {
		row("handler", "%s: %s, %d waiting, %d resting", h.Type, terminal.Count(h.Connections, "connection", "connections"), h.Waiting, h.Resting)
	}
	row("jobs", "%s", describeJobs(&s.Jobs))
	if s.Models > 0 {
		row("models", "%d configured", s.Models)
	} else {
		row("models", "none configured: demo answers, a small model for trying things out; kernos model add connects one")
	}
	row("sessions", "%s", describeSessions(&s.Sessions))
	row("meaning", "%s", describeMeaning(&s.Meaning))
	row("store", "%s, %s recorded", terminal.Bytes(s.Store.Bytes), terminal.Count(int(s.Store.Messages), "message", "messages"))
	row("syscalls", "%d: %s (hash %s)", s.Served.Syscalls, strings.Join(s.Served.Modules, ", "), s.Served.Hash)
	return strings.TrimSuffix(b.String(), "\n")
}

// describeCluster describes a cluster, a line for each node and each warning.
func describeCluster(c *lifecycle.Cluster) (lines []string) {
	if c == nil {
		return nil
	}
	for _, n := range c.Nodes {
		text := n.Name
		if n.Name == c.Node {
			text += " (this one)"
		}
		switch {
		case n.State == "owner":
			text += ": owns the kernel"
		case n.Behind > 0:
			text += fmt.Sprintf(": %s, %s behind", n.State, terminal.Count(int(n.Behind), "group", "groups"))
		default:
			text += ": " + n.State
		}
		if len(n.Lacks) > 0 {
			text += "; lacks the sealing keys " + strings.Join(n.Lacks, ", ") + ", so it takes over only if no other node can"
		}
		if n.Problem != "" {
			text += "; " + n.Problem
		}
		lines = append(lines, text)
	}
	if c.Owner == "" {
		lines = append(lines, "no node owns the kernel at the moment")
	}
	for _, w := range append(slices.Clone(c.Warnings), c.Problem) {
		if w != "" {
			lines = append(lines, "warning: "+w)
		}
	}
	return lines
}

// describeJobs describes the work in the background.
func describeJobs(j *lifecycle.Jobs) string {
	text := fmt.Sprintf("%d running, %d completed, %d failed; %s", j.Running, j.Completed, j.Failed, terminal.Count(j.Schedules, "schedule", "schedules"))
	if late := time.Duration(j.Oldest * float64(time.Second)).Round(time.Second); late > 0 {
		text += fmt.Sprintf("; one waits for its turn since %v", late)
	}
	if j.Held {
		text += "; restored from a backup, and waiting for kernos job resume"
	}
	return text
}

// describeSessions describes the conversations.
func describeSessions(s *lifecycle.Sessions) string {
	text := fmt.Sprintf("%s running, %d done, %d failed", terminal.Count(s.Running, "turn", "turns"), s.Done, s.Failed)
	if s.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting for a decision, a result or Session.Continue (kernos session list --status waiting)", s.Waiting)
	}
	return text
}

// describeMeaning describes how far searches by meaning are.
func describeMeaning(m *lifecycle.Meaning) string {
	text := fmt.Sprintf("%s embedded by %s", terminal.Count(m.Entries, "text", "texts"), m.Model)
	if m.Again > 0 {
		text = fmt.Sprintf("%s embedded, %d of %d again by %s", terminal.Count(m.Entries, "text", "texts"), m.Done, m.Again, m.Model)
	}
	if m.Behind > 0 {
		text += fmt.Sprintf(", %d waiting", m.Behind)
	}
	if m.Bytes > 0 {
		text += ", " + terminal.Bytes(int64(m.Bytes)) + " in memory"
	}
	if m.Waiting != "" {
		text += "; it doesn't continue: " + m.Waiting
	}
	return text
}
