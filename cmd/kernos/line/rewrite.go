package line

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// AsCall turns a command line that begins with no command into a call: the word is the
// name of a module. Flags of kernos call may stand before it, or before a command. The word after it is "" if there is none.
func AsCall(args []string, isCommand func(word, next string) bool) []string {
	at := 0
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		at = 1
		if len(args) == 2 {
			return args // the first word is being written
		}
	}
	first, ok := nextWord(args, at)
	if !ok || len(args) <= at {
		return args // a flag of kernos itself
	}
	command, behind := "call", args[first:]
	if first < len(args) {
		second, next := first, ""
		if second, ok = nextWord(args, first+1); ok && second < len(args)-at { // the word that is being completed isn't there yet
			next = args[second]
		}
		if isCommand(args[first], next) {
			command, behind = args[first], args[first+1:]
		}
	}
	return slices.Concat(args[:at], []string{command}, args[at:first], behind)
}

// nextWord returns where the next word is that isn't a flag of kernos call, or the end. It isn't ok if another flag comes
// before it.
func nextWord(args []string, at int) (next int, ok bool) {
	for at < len(args) && IsFlag(args[at]) {
		own, _, hasValue := FindFlag(args[at])
		if own == nil || own.Name == "help" {
			return at, false
		}
		if at++; takesValue(own) && !hasValue {
			at++
		}
	}
	return min(at, len(args)), true
}

// FileCall returns the command line of a call with the code of a file: --data is the input of a test.
func FileCall(method, file string, args []string) []string {
	ext := filepath.Ext(file)
	call := []string{"syscall", method, "code=@" + file}
	if language := strings.TrimPrefix(ext, "."); language == "js" || language == "wasm" {
		call = append(call, "language="+language)
	}
	named := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		named = named || a == "--name" || strings.HasPrefix(a, "--name=") || strings.HasPrefix(a, "name=")
		value, isData := strings.CutPrefix(a, "--data=")
		if method == "test" && a == "--data" && i+1 < len(args) {
			i++
			value, isData = args[i], true
		}
		if method == "test" && isData {
			a = "data:=" + value
		}
		call = append(call, a)
	}
	if !named {
		call = append(call, "name="+strings.TrimSuffix(filepath.Base(file), ext))
	}
	return call
}
