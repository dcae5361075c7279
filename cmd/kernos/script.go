package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/internal/exit"
)

// scriptCommands returns those for syscalls that are code. They are calls with the code of a file.
func scriptCommands() []*cobra.Command {
	register := fileCommand("register", &cobra.Command{
		Use:   "register FILE [--PARAMETER VALUE …]",
		Short: "Register a file of TypeScript as a syscall",
		Long: `Register the code of a file as a syscall, which can be called at once and stays until kernos
unregister. The name is that of the file, or --name: Text.Count.ts is Text.Count. The code
exports handler, and may export kind, InputSchema, OutputSchema, description and version;
what isn't exported is given as a parameter (kernos syscall register --help).

Code that was registered in a session stays under the rules of that session, also if the
owner calls it, until --adopt TYPE. Read it first: kernos versions TYPE --version VERSION.`,
		Example: `  kernos register Text.Count.ts
  kernos register count.ts --name Text.Count --kind query
  kernos register Text.Count.ts --version 1.1.0 weights:='{"1.0.0": 9, "1.1.0": 1}'
  kernos register --adopt Text.Count`,
	})
	test := fileCommand("test", &cobra.Command{
		Use:   "test FILE [--data JSON] [--PARAMETER VALUE …]",
		Short: "Run a file of TypeScript without registering it",
		Long: `Run the handler of a file on the kernel with --data, and print its output or error, its
events, the lines of its console, the syscalls that it calls, and how long it took. Queries
that it calls are run. Commands aren't: they answer with replies:='{TYPE: REPLY}', or with an
example of what they reply.`,
		Example: `  kernos test Text.Count.ts --data '{"text": "one two"}'
  kernos test Weather.Report.ts --data '{"city": "Rome"}' replies:='{"Http.Fetch": {"status": 200, "body": "{}"}}'`,
	})
	return []*cobra.Command{
		register, test,
		nameCommand("unregister", "Remove a syscall that is code", "Remove a syscall that is code, with all its versions. Calls that have begun are finished."),
		nameCommand("versions", "List the versions of a syscall that is code", "List the versions of a syscall that is code: which are called, how often, with which outcomes\nand how fast. --version VERSION prints the code of one; kernos syscall rollback goes back to one."),
		typesCommand(),
	}
}

// nameCommand returns a method of the module syscall that takes a name.
func nameCommand(method, short, long string) *cobra.Command {
	return methodCommand(&cobra.Command{
		Use: method + " TYPE", Short: short, Long: long,
		Example: "  kernos " + method + " Text.Count",
	}, func(args []string) []string { return slices.Concat([]string{"syscall", method}, args) })
}

// fileCommand completes a command that calls a method with the code of a file.
func fileCommand(method string, c *cobra.Command) *cobra.Command {
	c.Long += "\n\nIf tsc is installed, the types of the code are checked first; --no-check leaves that out."
	c.DisableFlagParsing, c.DisableFlagsInUseLine = true, true
	c.RunE = func(c *cobra.Command, args []string) error {
		if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
			return c.Help()
		}
		if method == "register" && slices.Contains(args, "--adopt") {
			rest := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--adopt" })
			return line.Call(c, slices.Concat([]string{"syscall", "adopt"}, rest))
		}
		check := !slices.Contains(args, "--no-check")
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--no-check" })
		if len(args) == 0 || strings.HasPrefix(args[0], "-") {
			return fmt.Errorf("name the file: kernos %s FILE; see kernos %s --help", method, method)
		}
		file := args[0]
		if _, err := os.Stat(file); err != nil {
			return &exit.Error{Status: exit.Usage, Cause: err}
		}
		if check {
			if err := checkTypes(c, file); err != nil {
				return err
			}
		}
		return line.Call(c, line.FileCall(method, file, args[1:]))
	}
	listsItsFlags(c)
	return c
}

func typesCommand() *cobra.Command {
	return sends(&cobra.Command{
		Use:   "types",
		Short: "Print what code may call, as TypeScript",
		Long: `Print declarations in TypeScript of what the code of a syscall has: kernos.call with the types
of all syscalls that the daemon serves, fetch, console and the rest. An editor that finds them
beside the code completes and checks it.`,
		Example: "  kernos types > os/syscalls/kernos.d.ts",
		Args:    noArguments,
	}, "text", "Syscall.Types", nothing, shows((*line.Types).Show))
}

// checkTypes checks the types of a file, if tsc is installed.
func checkTypes(c *cobra.Command, file string) error {
	tsc, err := exec.LookPath("tsc")
	if err != nil || filepath.Ext(file) != ".ts" {
		return nil
	}
	return exit.OnSignal(c.Context(), func(ctx context.Context) error {
		call, done, err := opener(c, started)(ctx)
		if err != nil {
			return exit.Wrap(err)
		}
		return cmp.Or(line.CheckTypes(ctx, call, tsc, file), exit.Wrap(done()))
	})
}
