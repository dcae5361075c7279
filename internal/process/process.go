// Package process starts programs that end together with all that they have started, and that see
// nothing of the kernel's environment but where things are.
//
// # Goroutines
//
//   - Starting a program and waiting for it, one and its thread per program: [Start] starts it, and it ends when the
//     program has.
package process

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// Group gives a command a process group of its own, which is killed when its context is done.
func Group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return Kill(cmd) }
}

// Kill kills the process group of a command that [Group] has prepared and that was started.
// Process numbers are reused late, so it can't be another group.
func Kill(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// Start starts a command that is to last: it is prepared as by [Group], and where the system can do
// that, it is also killed when this process dies without having killed it. The caller calls wait,
// once; it kills what the command has left behind in its group.
func Start(cmd *exec.Cmd) (wait func() error, err error) {
	Group(cmd)
	dieWithParent(cmd.SysProcAttr)
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// For Linux, the parent that dies is the thread that has started the command. This
		// goroutine keeps the thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
			_ = Kill(cmd)
			ended <- err
		}
	}()
	return func() error { return <-ended }, <-started
}

// Environment returns the variables that a program may see. Others may hold secrets.
func Environment() []string {
	env := []string{"TERM=dumb"}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP":
			env = append(env, v)
		default:
			if strings.HasPrefix(name, "LC_") {
				env = append(env, v)
			}
		}
	}
	return env
}
