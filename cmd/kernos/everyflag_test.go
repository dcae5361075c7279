package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kernos/client"
	"kernos/cmd/kernos/line"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// here is a house whose commands run in this process.
func here(t *testing.T) *house {
	t.Helper()
	h := newCaller(t)
	for _, variable := range h.env {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "KERNOS_") || strings.HasPrefix(name, "XDG_") {
			t.Setenv(name, value)
		}
	}
	h.must("", "memory", "set", "notes/1", "milk") // starts the daemon
	return h
}

// runHere runs a command in this process.
func runHere(t *testing.T, args ...string) (out, notes string, status int) {
	t.Helper()
	root := rootCommand()
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(asModule(root, args))
	err := root.ExecuteContext(context.Background())
	if err != nil {
		e.WriteString(err.Error())
	}
	return o.String(), e.String(), exit.Status(err)
}

// flagsOfCalls are the flags of every call, and what the request that is shown has because of each. TYPE stands for the
// type of the syscall, and METHOD for its method.
var flagsOfCalls = []struct {
	flags []string
	shown string
}{
	{[]string{"--dry-run"}, `"method":"METHOD"`},
	{[]string{"--as", "jsonrpc"}, `"method":"METHOD"`},
	{[]string{"--as", "ndjson"}, `"type":"TYPE"`},
	{[]string{"--as", "curl"}, "curl -sS "},
	{[]string{"--dry-run", "-o", "pretty"}, `"METHOD"`},
	{[]string{"--dry-run", "--json"}, `"METHOD"`},
	{[]string{"--dry-run", "-r"}, `"METHOD"`},
	{[]string{"--dry-run", "--jq", "."}, `"METHOD"`},
	{[]string{"--dry-run", "--template", "{{.}}"}, `"METHOD"`},
	{[]string{"--dry-run", "-v"}, `"METHOD"`},
	{[]string{"--dry-run", "-w"}, `"METHOD"`},
	{[]string{"--dry-run", "--timeout", "10s"}, `"METHOD"`},
	{[]string{"--dry-run", "--context", "local"}, `"METHOD"`},
	{[]string{"--dry-run", "--correlation", "flow-1"}, `"flow-1"`},
	{[]string{"--dry-run", "--causation", "cause-1"}, `"cause-1"`},
	{[]string{"--dry-run", "--idempotency-key", "key-1"}, `"key-1"`},
	{[]string{"--dry-run", "--background"}, `"name":"TYPE"`},
	{[]string{"--dry-run", "--background", "--delay", "10m"}, `"delay":"10m"`},
	{[]string{"--dry-run", "--background", "--at", "2036-01-31T12:00:00Z"}, `"at":"2036-01-31T12:00:00Z"`},
	{[]string{"--dry-run", "--background", "--schedule", "@every 1h"}, `"schedule":"@every 1h"`},
}

// checkFlags runs a command with each flag of every call, which stands before the words after. No job may have a
// reply with a secret.
func checkFlags(t *testing.T, command, after []string, d kernel.Definition, ownFlags func(name string) bool) {
	t.Helper()
	module, method := kernel.Method(d.Type)
	for _, f := range flagsOfCalls {
		if slices.ContainsFunc(f.flags, func(flag string) bool { return ownFlags(strings.TrimLeft(flag, "-")) }) {
			continue // the command, or the syscall, has one of that name that means something else
		}
		args := slices.Concat(command, f.flags, after)
		out, notes, status := runHere(t, args...)
		if t.Failed() {
			return // the other flags would fail alike
		}
		want := strings.NewReplacer("METHOD", module+"_"+method, "TYPE", string(d.Type)).Replace(f.shown)
		if slices.Contains(f.flags, "--background") && hasSecret(d) {
			if status == 0 || !strings.Contains(notes, "which a job doesn't keep") {
				t.Errorf("kernos %s: status %d: %s%s", strings.Join(args, " "), status, out, notes)
			}
			continue
		}
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("kernos %s: status %d, and no %s in %s%s", strings.Join(args, " "), status, want, out, notes)
		}
	}
}

func hasSecret(d kernel.Definition) bool {
	if d.Output == nil {
		return false
	}
	reply := client.ReadField(d.Output.JSON())
	return reply != nil && slices.ContainsFunc(reply.Fields, func(f *client.Field) bool { return f.Sensitive })
}

// TestEverySyscallTakesEveryFlag calls every syscall with every flag of calls. Nothing is sent: a syscall may do anything.
func TestEverySyscallTakesEveryFlag(t *testing.T) {
	here(t)
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, n := range r.All().Namespaces() {
		for _, route := range n.Methods {
			d := route.Syscall.Definition
			tested++
			command := []string{route.Namespace, route.Method, "--no-prompt", "--data", example(t, d)}
			if own, _, err := rootCommand().Find(command[:2]); err == nil && own.Name() == route.Method {
				command = append([]string{"call"}, command...) // such as kernos mcp add, which is tested below
			}
			checkFlags(t, command, nil, d, func(name string) bool {
				properties := client.ReadField(d.Input.JSON())
				return properties != nil && slices.ContainsFunc(properties.Fields, func(f *client.Field) bool { return line.FlagName(f.Name) == name })
			})
		}
	}
	if tested < 90 {
		t.Errorf("only %d syscalls were called", tested)
	}
}

// example returns parameters that a syscall takes.
func example(t *testing.T, d kernel.Definition) string {
	t.Helper()
	found, ok := schema.ExampleOf(d.Input)
	if !ok {
		t.Fatalf("there is no example for %s", d.Type)
	}
	return string(found)
}

// callingCommands are the commands that make calls, with arguments for each, and the syscall that is called first.
var callingCommands = []struct {
	args string
	t    message.Type
}{
	{"console", daemon.ConsoleType},
	{"describe Echo", "Syscall.Describe"},
	{"graph flow", "Message.Graph"},
	{"job logs 01K9ZV5Y2Z4B8Q0R6T7WX4V2QD", "Job.Result"},
	{"log", "Message.List"},
	{"ls", "Kernel.Modules"},
	{"mcp add files -- true", "Mcp.Add"},
	{"mcp refresh files", "Mcp.Refresh"},
	{"mcp show files", "Mcp.Show"},
	{"model add openai", "Model.Add"},
	{"replay flow", "Message.Replay"},
	{"search milk", "Message.Search"},
	{"secret list", "Memory.List"},
	{"secret remove deploys", "Memory.Delete"},
	{"secret set deploys --for a.example", "Crypto.Seal"},
	{"session export 01K9ZV5Y2Z4B8Q0R6T7WX4V2QD", "Session.Export"},
	{"session show 01K9ZV5Y2Z4B8Q0R6T7WX4V2QD", "Session.Export"},
	{"show a", "Message.List"},
	{"status", "Kernel.Status"},
	{"types", "Syscall.Types"},
	{"watch", "Message.Watch"},
}

// otherCommands are the commands that aren't calls.
var otherCommands = []string{
	"backup", "cat", "chat", "cluster", "cluster check", "cluster forget", "cluster init", "cluster leave", "cluster move", "cluster status", "completion", "completion bash", "completion fish", "completion zsh", "config", "context", "context add", "context list", "context remove", "context set", "context use", "convert", "cp",
	"docs", "doctor", "edit", "handle", "mcp", "mcp install", "model detect", "pipe", "restart", "restore", "secret", "serve", "service", "service install", "service logs", "service status", "service uninstall", "stop", "token", "trust", "untrust", "upgrade",
}

// TestEveryCommandThatCallsTakesEveryFlag runs the commands that make calls with every flag of calls.
func TestEveryCommandThatCallsTakesEveryFlag(t *testing.T) {
	here(t)
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	listed := slices.Clone(otherCommands)
	for _, c := range callingCommands {
		d := kernel.Definition{Type: c.t} // the daemon has syscalls beyond the definitions
		if s, ok := r.Lookup(c.t); ok {
			d = s.Definition
		}
		words := strings.Fields(c.args)
		found, _, err := rootCommand().Find(words)
		if err != nil {
			t.Fatal(err)
		}
		command, after := words, []string(nil)
		if i := slices.Index(words, "--"); i >= 0 {
			command, after = words[:i], words[i:]
		}
		listed = append(listed, strings.TrimPrefix(found.CommandPath(), "kernos "))
		checkFlags(t, command, after, d, func(name string) bool {
			f := found.Flags().Lookup(name)
			drawn := found.Name() == "graph" && (name == "pretty" || name == "r") // its forms are drawings, and JSON
			return drawn || f != nil && !isCallFlag(found, name)
		})
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "kernos ")
		if c.Runnable() && !c.DisableFlagParsing && c.HasParent() && !c.Hidden && !slices.Contains(listed, name) {
			t.Errorf("kernos %s is neither among the commands that make calls nor among the others", name)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(rootCommand())
}

// isCallFlag reports whether every call has the flag.
func isCallFlag(c *cobra.Command, name string) bool {
	_, rest, _ := strings.Cut(c.UsageString(), "Flags of every call:")
	return strings.Contains(rest, "--"+name+" ") || strings.Contains(rest, "--"+name+"\n")
}
