package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// apart gives a server one core and this process, which is its client, another, so that the rate is that of the server.
// Otherwise the client would take a core's time from it, and a faster server would suffer more. undo lets both have all cores again.
func apart(server int) (undo func(), err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, err
	}
	var cores []int
	for i := 0; len(cores) < 2; i++ {
		if i == 1024 {
			return nil, fmt.Errorf("the server and its client need a core each, and there is %d", len(cores))
		}
		if all.IsSet(i) {
			cores = append(cores, i)
		}
	}
	for i, pid := range []int{server, os.Getpid()} {
		var one unix.CPUSet
		one.Set(cores[i])
		if err := pin(pid, &one); err != nil {
			return nil, err
		}
	}
	return func() {
		_ = pin(server, &all) // it may have ended
		_ = pin(os.Getpid(), &all)
	}, nil
}

// pin lets the threads of a process, and those that they start, run on some cores.
func pin(pid int, cores *unix.CPUSet) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, cores); err != nil && err != unix.ESRCH {
			return err
		}
	}
	return nil
}
