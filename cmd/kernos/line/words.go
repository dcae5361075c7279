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
	{Word: "version", Runs: []string{"--version"}},
	{Word: "-v", Runs: []string{"--version"}, Alone: true},
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
