package content

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"syscall"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/process"
)

const (
	// maxPrinted is how much of what a tool prints is read.
	maxPrinted = 64 << 10

	// lingering is how long what a tool has started may hold on to its output when the
	// tool itself has ended.
	lingering = 250 * time.Millisecond

	// A program that has just written the file may still have it open.
	busyTries = 20
	busyPause = 25 * time.Millisecond
)

// run executes a command in a directory, and returns what it has printed. When ctx is done,
// the command is killed with all that it has started; whatever it leaves behind is killed
// too. It has no input, and of the environment only the variables that locate things.
func run(ctx context.Context, dir string, command ...string) ([]byte, problem) {
	pauses := backoff.Backoff{First: busyPause, Longest: busyPause}
	for try := 0; ; try++ {
		out, err := runOnce(ctx, dir, command)
		switch {
		case err == nil:
			return out, ""
		case ctx.Err() != nil:
			return nil, timedOut
		case errors.Is(err, syscall.ETXTBSY) && try < busyTries:
			pauses.Wait(ctx.Done())
		case errors.Is(err, fs.ErrPermission):
			return nil, permissionDenied
		default:
			return nil, executionFailed
		}
	}
}

func runOnce(parent context.Context, dir string, command []string) ([]byte, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	out := printed{full: cancel}
	cmd.Dir = dir
	cmd.Env = process.Environment()
	cmd.Stdout = &out
	cmd.WaitDelay = lingering
	process.Group(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	_ = process.Kill(cmd)
	switch {
	case parent.Err() != nil:
		return nil, parent.Err()
	case out.isFull, errors.Is(err, exec.ErrWaitDelay):
		return out.text, nil
	}
	return out.text, err
}

// printed keeps the beginning of what is written, and adds a note if it keeps no more than that.
type printed struct {
	text   []byte
	isFull bool
	full   func()
}

func (p *printed) Write(b []byte) (int, error) {
	p.text = append(p.text, b[:min(len(b), maxPrinted-len(p.text))]...)
	if len(p.text) == maxPrinted && !p.isFull {
		p.isFull = true
		p.full()
	}
	return len(b), nil
}
