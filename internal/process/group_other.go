//go:build !unix

package process

import (
	"os/exec"
	"syscall"
)

// groupOfItsOwn is nothing where there are no process groups: the command alone is killed.
func groupOfItsOwn() *syscall.SysProcAttr { return nil }

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func dieWithParent(*syscall.SysProcAttr) {}
