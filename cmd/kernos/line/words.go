package line

import (
	"slices"

	"github.com/spf13/cobra"
)

// Words are words that people type and that are neither commands nor modules: other names of commands, which help and
// completion leave out, and words that are explained.
var Words = []struct {
	Word  string
	Runs  []string // the command line that the word stands for
	Alone bool     // only if nothing follows it
	Means string   // the explanation of a word that runs nothing
}{
	{Word: "attention", Runs: []string{"kernel", "attention"}},
	{Word: "jobs", Runs: []string{"job", "list"}},
	{Word: "logs", Runs: []string{"log"}},
	{Word: "models", Runs: []string{"model", "list"}},
	{Word: "ps", Runs: []string{"job", "list"}},
	{Word: "sessions", Runs: []string{"session", "list"}},
	{Word: "version", Runs: []string{"--version"}},
	{Word: "-v", Runs: []string{"--version"}, Alone: true},

	{Word: "init", Means: "nothing has to be set up: the first call starts the daemon, and kernos model add connects a model"},
	{Word: "list", Means: "kernos ls lists the syscalls, and kernos MODULE list the things of a module, such as kernos memory list or kernos job list"},
	{Word: "get", Means: "kernos memory get KEY reads a value, and kernos cat NAME writes a value or a file as it is"},
}

// Expand returns a command line with the command that its first word stands for, also in what is completed or explained.
func Expand(args []string) []string {
	at := 0
	if len(args) > 2 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) || len(args) > 1 && args[0] == "help" {
		at = 1
	}
	for _, w := range Words {
		if len(args) > at && args[at] == w.Word && w.Runs != nil && (!w.Alone || len(args) == 1) {
			return slices.Concat(args[:at], w.Runs, args[at+1:])
		}
	}
	return args
}

// explanation returns what a word that runs nothing means; "" if it isn't one.
func explanation(word string) string {
	for _, w := range Words {
		if w.Word == word {
			return w.Means
		}
	}
	return ""
}
