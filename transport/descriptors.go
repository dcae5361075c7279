package transport

import "golang.org/x/sys/unix"

// ownFiles is how many files, at most, what runs beside the connections may want to open: a
// store that can't is one that fails.
const ownFiles = 768

// Share returns n, or how many connections a wire may have if that is less: a part of the files
// that the process may have open and that are left for connections. The owner's socket has one
// of two parts; HTTP and WebSockets, which other users reach, have one of four each. So none
// of them takes what the others need.
func Share(n, parts int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return n
	}
	return share(n, parts, int(limit.Cur))
}

// share is Share in a process whose limit of open files is open. Half of them are always for
// connections. The runtime of Go has raised the limit as far as it goes.
func share(n, parts, open int) int {
	return max(1, min(n, (open-min(ownFiles, open/2))/parts))
}
