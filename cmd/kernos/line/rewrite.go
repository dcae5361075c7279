package line

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// AsCall turns a command line that begins with no command into a call: the word is the
// name of a module. Flags of kernos call may stand before it, or before a command.
func AsCall(args []string, isCommand func(word string) bool) []string {
	at := 0
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		at = 1
		if len(args) == 2 {
			return args // the first word is being written
		}
	}
	first := at
	for first < len(args) && IsFlag(args[first]) {
		own, _, hasValue := FindFlag(args[first])
		if own == nil || own.Name == "help" {
			return args // a flag of kernos itself
		}
		if first++; takesValue(own) && !hasValue {
			first++
		}
	}
	if len(args) <= at {
		return args
	}
	command := "call"
	behind := args[min(first, len(args)):]
	if first < len(args) && isCommand(args[first]) {
		command, behind = args[first], args[first+1:]
	}
	return slices.Concat(args[:at], []string{command}, args[at:min(first, len(args))], behind)
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
