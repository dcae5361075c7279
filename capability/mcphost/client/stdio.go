package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"kernos/internal/process"
	"kernos/message"
)

const (
	closeTime = time.Second // how long a process may take to end by itself when its input has ended

	// Limits on what is passed on of the lines that a server writes to its standard error.
	maxLogged  = 1000 // bytes of a line
	logBurst   = 200  // lines at once
	logsPerSec = 20   // lines per second after these

	maxTail = 500 // bytes of standard error that an error repeats
)

// A child is a server that is a process.
type child struct {
	c     *Conn
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	err   process.Tail  // the end of standard error
	pace  *rate.Limiter // limits the lines for the log

	mu    sync.Mutex // held while a message is written
	stdin io.WriteCloser
}

// startProcess starts the server of a connection.
func startProcess(c *Conn) (carrier, error) {
	w := &child{c: c, ended: make(chan struct{}), err: process.Tail{Max: maxTail}, pace: rate.NewLimiter(logsPerSec, logBurst)}
	w.cmd = exec.CommandContext(context.WithoutCancel(c.life), c.opts.Command[0], c.opts.Command[1:]...)
	w.cmd.Dir, w.cmd.Env, w.cmd.WaitDelay = cmp.Or(c.opts.Dir, c.opts.Home), c.opts.Env, closeTime
	out, stdout := io.Pipe()
	log, stderr := io.Pipe()
	w.cmd.Stdout, w.cmd.Stderr = stdout, stderr
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	wait, err := process.Start(w.cmd)
	switch program := c.opts.Command[0]; {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%s isn't in the daemon's PATH; write its path out, or restart the daemon where it is in the PATH (kernos stop)", program)
	case errors.Is(err, fs.ErrNotExist) && c.opts.Dir != "":
		return nil, fmt.Errorf("%s can't be started in the directory %s: one of them doesn't exist", program, w.cmd.Dir)
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(program) && program[0] != '.': // such as example.com/mcp
		return nil, fmt.Errorf("%s can't be started: %w (the address of a server begins with http:// or https://)", program, err)
	case err != nil:
		return nil, fmt.Errorf("%s can't be started: %w", program, err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { w.readMessages(out) })
	reading.Go(func() { w.readLog(log) })
	c.work.Go(func() {
		_ = wait()
		_, _ = stdout.Close(), stderr.Close()
		reading.Wait() // lines that were written before the end count
		c.end(&broken{fmt.Errorf("its process has ended (%s)%s", w.cmd.ProcessState, w.err.String())})
		close(w.ended)
	})
	return w, nil
}

// readMessages takes messages, one per line.
func (w *child) readMessages(from *io.PipeReader) {
	defer func() { _ = from.Close() }() // a process that keeps writing isn't waited for
	lines := bufio.NewReaderSize(from, 64<<10)
	var long []byte
	for {
		part, err := lines.ReadSlice('\n')
		long = append(long, part...)
		switch {
		case len(long) > maxFrame:
			w.fail(fmt.Errorf("it has sent a message of more than %d bytes", maxFrame))
			return
		case err == bufio.ErrBufferFull:
			continue
		case err != nil:
			return
		}
		line := bytes.TrimSpace(long)
		if len(line) > 0 && line[0] == '{' {
			if err := w.c.receive(line); err != nil {
				w.fail(err)
				return
			}
		} else if len(line) > 0 { // many servers print to the wrong stream when they begin
			w.log(w.c.secrets.Load().Hide(string(line)))
		}
		if long = long[:0]; cap(long) > 1<<20 {
			long = nil
		}
	}
}

// fail ends the connection because of what the server has sent.
func (w *child) fail(err error) {
	w.c.end(&broken{err})
	_ = process.Kill(w.cmd)
}

// readLog passes on what the server writes for its operator. Of a long line it takes the beginning: a secret in two pieces
// wouldn't be seen.
func (w *child) readLog(from *io.PipeReader) {
	lines := bufio.NewReaderSize(from, 4<<10)
	for within := false; ; {
		line, err := lines.ReadSlice('\n')
		if line := bytes.TrimSpace(line); len(line) > 0 && !within {
			text := message.Clip(w.c.secrets.Load().Hide(string(line)), maxLogged)
			_, _ = io.WriteString(&w.err, text+"\n")
			w.log(text)
		}
		if within = err == bufio.ErrBufferFull; err != nil && !within {
			return
		}
	}
}

// log passes a line on for the operator, unless there are too many.
func (w *child) log(line string) {
	if w.pace.Allow() {
		w.c.opts.Log(message.Clip(strings.ToValidUTF8(line, "�"), maxLogged))
	}
}

func (w *child) write(text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.stdin.Write(append(text, '\n'))
	return err
}

func (w *child) request(ctx context.Context, r *outgoing, p *pending) error {
	sent := make(chan error, 1)
	go func() { sent <- w.write(r.text) }() // a process that doesn't read must not hold up the caller
	for {
		select {
		case f := <-p.answer:
			p.answer <- f
			return nil
		case <-w.c.life.Done():
			return w.c.Err()
		case err := <-sent:
			if err != nil { // how the process ends explains more than that it doesn't read
				_ = process.Kill(w.cmd)
				<-w.c.life.Done()
				return fmt.Errorf("it doesn't read: %w (%w)", w.c.Err(), err)
			}
			sent = nil
		case <-ctx.Done():
			if sent != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				w.fail(errors.New("it doesn't read its standard input"))
				return ctx.Err()
			}
			w.cancel(r.id)
			return ctx.Err()
		}
	}
}

// cancel notifies the server that the answer to a request isn't waited for.
func (w *child) cancel(id int64) {
	params, err := json.Marshal(map[string]any{"requestId": id}, json.Deterministic(true))
	if err == nil {
		w.c.work.Go(func() { _ = w.c.notify(w.c.life, "notifications/cancelled", jsontext.Value(params)) })
	}
}

func (w *child) send(_ context.Context, text []byte, _ string) error { return w.write(text) }

func (w *child) readNotifications() {}

func (w *child) close() {
	_ = w.stdin.Close()
	patience := time.NewTimer(closeTime)
	defer patience.Stop()
	select {
	case <-w.ended:
	case <-patience.C:
		_ = process.Kill(w.cmd)
		<-w.ended
	}
}
