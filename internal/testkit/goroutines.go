package testkit

import (
	"runtime"
	"strings"
)

// Goroutines returns how many goroutines have a function, or part of its name, in their stack.
// Unlike the number of all goroutines, that does not change with what the testing package, the
// runtime and earlier tests do meanwhile.
func Goroutines(function string) int {
	stacks := make([]byte, 64<<10)
	n := runtime.Stack(stacks, true)
	for n == len(stacks) {
		stacks = make([]byte, 2*len(stacks))
		n = runtime.Stack(stacks, true)
	}
	count := 0
	for stack := range strings.SplitSeq(string(stacks[:n]), "\n\n") {
		if strings.Contains(stack, function) {
			count++
		}
	}
	return count
}
