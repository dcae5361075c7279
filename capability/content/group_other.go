//go:build !unix

package content

import "os/exec"

// inGroup does nothing where there are no process groups: the command alone is killed.
func inGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
