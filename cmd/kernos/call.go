package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
)

func callCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "call TYPE [--PARAMETER VALUE …]",
		Short: "Call one method; kernos MODULE METHOD is the same",
		Long: `Call one method of a server and show the data that it answers with. What there is to
call, and which parameters it takes, is asked of the server: kernos call lists the
modules, kernos MODULE the methods of one, and kernos MODULE METHOD --help says what a
method takes. The daemon is called, and started if it is not running, unless a context
says otherwise (kernos context).

A method is written as a type, Memory.Get, as a method, memory_get, or as two words,
memory get. Parameters are written

  VALUE                the one parameter that is required, if there is one only, or the first
                       of those of which one is required
  --key VALUE          VALUE is taken as it is, whatever it looks like: a text, or a number,
                       true or false, or JSON where the parameter takes nothing else
  --owner.name VALUE   a field within a parameter
  --tag a --tag b      a list
  key=VALUE            the same as --key VALUE, unless VALUE begins with @
  key:=JSON            JSON; where a parameter takes any value, this is how to write a
                       number, a list or an object, and the others are how to write a text
  key=@FILE            the content of a file as it is; @- is standard input
  key:=@FILE           the content of a file, which is JSON
  --data JSON          all of them as one object; - is standard input, @FILE a file.
                       An object alone means the same, if several parameters are required, or none
  -- VALUE …           values of parameters that are not given, in the order of the help,
                       each as it is after --key

A file that is large, or isn't text, is sent by reference where the method takes one, and
is refused elsewhere. What an answer has by reference is shown as if it were in it; kernos
cat writes files that aren't text.

Data goes to standard output, progress and everything else to standard error. The status
is 1 if an error came back, 3 if the server does not allow it, 4 if it can't be reached,
5 for parameters that the method does not take, 6 for a method that is not there.

These flags are not parameters; a parameter of such a name is written NAME=VALUE:

` + line.FlagsHelp(false) + `

These flags are not parameters either, unless the method has a parameter of that name:

` + line.FlagsHelp(true),
		Example: `  kernos memory set notes/1 --value milk
  kernos memory get notes/1
  kernos memory set notes/2 value:='{"milk": 2}'
  kernos memory set --key "$key" value=@notes.txt --idempotency-key shopping-1
  kernos call Memory.Get notes/1 -r
  kernos memory list --output table --context office
  kernos call kernel_ping payload:=[1,2] --as curl`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, args []string) error { return line.Call(c, args) },
		ValidArgsFunction:     line.CompleteCall,
	}
	listsItsFlags(c)
	return c
}

// methodCommand completes a command that makes a call: words returns the words of the call for the arguments of the
// command.
func methodCommand(c *cobra.Command, words func(args []string) []string) *cobra.Command {
	c.DisableFlagParsing, c.DisableFlagsInUseLine = true, true
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
			return c.Help()
		}
		return line.Call(c, words(args))
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return line.CompleteCall(c, words(args), word)
	}
	listsItsFlags(c)
	return c
}

// moduleCommand completes the command of a module, to which commands of its own can be added: every other word is a
// method. Without a word, a command that has nothing to run lists the methods.
func moduleCommand(c *cobra.Command) *cobra.Command {
	module := c.Name()
	c.Annotations = map[string]string{line.ModuleCommand: module}
	words := func(args []string) []string { return slices.Concat([]string{module}, args) }
	if c.RunE == nil {
		c.Use += " METHOD [--PARAMETER VALUE …]"
		c.Long = fmt.Sprintf("Call a method of the module %[1]s. kernos %[1]s lists the methods, and\nkernos %[1]s METHOD --help says what one takes.\n\n%[2]s", module, c.Long)
		methodCommand(c, words)
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		found, directive := line.CompleteCall(c, words(args), word)
		if len(args) == 0 {
			found = withoutCommands(c, found)
		}
		return found, directive
	}
	return c
}

// withoutCommands returns the completions that aren't commands of a command, which are listed already.
func withoutCommands(c *cobra.Command, completions []string) []string {
	return slices.DeleteFunc(completions, func(completion string) bool {
		name, _, _ := strings.Cut(completion, "\t")
		return hasCommand(c, name)
	})
}

// listsItsFlags leaves the flags of a command that reads them itself to its own help text
// and completion.
func listsItsFlags(c *cobra.Command) {
	c.Flags().BoolP("help", "h", false, "")
	_ = c.Flags().MarkHidden("help")
}

// asModule turns a command line that begins with no command into a call: the word is the name of a module, unless it is another
// name of a command.
func asModule(root *cobra.Command, args []string) []string {
	forPeople := false
	args = line.AsCall(line.Expand(args), func(word, next string) bool {
		switch word {
		case "help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
			return true
		}
		c, _, err := root.Find([]string{word})
		if err != nil || c == root {
			return false
		}
		if c.DisableFlagParsing || c.Annotations[line.ModuleCommand] == "" || next == "" || hasCommand(c, next) {
			return true
		}
		forPeople = true // a command that has flags of its own leaves the methods of its module to kernos call
		return false
	})
	if forPeople {
		at := slices.Index(args, "call") + 1
		args = slices.Insert(slices.Clone(args), at, "--"+line.PeopleFlag)
	}
	return args
}
