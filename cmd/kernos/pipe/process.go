package pipe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/process"
	"kernos/message"
)

const (
	maxPrinted = 1 << 20 // bytes of one value that a program prints
	maxTail    = 1000    // bytes of standard error that an error repeats

	// closeTime is how long a process that has ended may leave its output open to its children.
	closeTime = time.Second
)

var (
	errTimeout = errors.New("the time is up")
	errEndless = errors.New("the output has no end")
)

// run answers a request with a process. The process is the leader of a process group, which is
// killed when the process has ended, or ctx ends.
func (c *connection) run(ctx context.Context, m *message.Message) message.Message {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	program := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	process.Group(program) // an interrupt of the terminal isn't for it
	program.WaitDelay = closeTime
	program.Env = append(os.Environ(), "KERNOS_REQUEST_TYPE="+string(m.Type), "KERNOS_REQUEST_ID="+string(m.Metadata.ID), "KERNOS_REQUEST_CORRELATION="+m.Caused().Correlation)
	for _, name := range []string{message.Traceparent, message.Tracestate} {
		if value := m.Metadata.Extension(name); value != "" {
			program.Env = append(program.Env, strings.ToUpper(name)+"="+value)
		}
	}
	program.Stdin = io.MultiReader(bytes.NewReader(m.Data), strings.NewReader("\n"))
	stderr := &process.Tail{Max: maxTail}
	program.Stderr = io.MultiWriter(c.Stderr, stderr)
	read, write := io.Pipe()
	program.Stdout = write
	var printed printed
	var reading sync.WaitGroup
	reading.Go(func() {
		printed.read(read, func(t message.Type, data json.RawMessage) *message.Error {
			event := m.Event(t, data)
			return c.send(&event)
		})
		// What a program prints after a mistake is left alone, so that it can end by itself.
		if n, _ := io.CopyN(io.Discard, read, maxPrinted); n == maxPrinted {
			kill(errEndless)
			_, _ = io.Copy(io.Discard, read)
		}
	})
	err := program.Run()
	if program.Process != nil {
		_ = process.Kill(program) // processes that it has started in its group end with it
	}
	_ = write.Close()
	reading.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the process has ended well, and its children have kept its output open
	}
	data, failure := c.outcome(ctx, err, &printed, stderr.String())
	if failure != nil {
		return m.Fail(failure)
	}
	return m.Reply(data)
}

// outcome returns what the end of a process means.
func (c *connection) outcome(ctx context.Context, err error, p *printed, stderr string) (json.RawMessage, *message.Error) {
	name := c.Command[0]
	ended, hasEnded := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && context.Cause(ctx) == errTimeout:
		return nil, message.Errorf(504, "%s has not answered within %v, and was killed%s", name, c.Timeout, stderr)
	case err != nil && context.Cause(ctx) == errEndless:
		return nil, message.Errorf(502, "%s has printed %w, and was killed", name, p.err)
	case err != nil && ctx.Err() != nil:
		return nil, message.Errorf(499, "%s was killed, since the request was cancelled", name)
	case hasEnded:
		if e, err := message.ParseError(json.RawMessage(p.value)); err == nil && p.err == nil {
			return nil, e
		}
		return nil, message.Errorf(500, "%s has failed (%v)%s", name, ended.ProcessState, stderr)
	case err != nil:
		return nil, message.Errorf(500, "%s can't be run: %v", name, err)
	case p.err != nil:
		return nil, message.Errorf(502, "%s has printed %w%s", name, p.err, stderr)
	case p.value == nil:
		return json.RawMessage("null"), nil
	}
	return json.RawMessage(p.value), nil
}

// printed is what a process has printed to standard output.
type printed struct {
	value jsontext.Value // the one that isn't an event
	err   error          // continues "has printed"
}

// read reads the values that a process prints, and passes events on as they come.
func (p *printed) read(from io.Reader, event func(message.Type, json.RawMessage) *message.Error) {
	limited := &io.LimitedReader{R: from}
	for values := jsontext.NewDecoder(limited); ; {
		limited.N = maxPrinted
		value, err := values.ReadValue()
		switch {
		case err == io.EOF && limited.N > 0:
			return
		case limited.N <= 0:
			p.err = fmt.Errorf("a value of more than %d bytes", maxPrinted)
			return
		case err != nil:
			p.err = fmt.Errorf("something that isn't JSON: %w", err)
			return
		}
		var e struct {
			Kind message.Kind
			Type message.Type
			Data json.RawMessage
		}
		if json.Unmarshal(value, &e) == nil && e.Kind == message.KindEvent && e.Type.Valid() && e.Data != nil {
			_ = value.Compact()
			_ = json.Unmarshal(value, &e)
			if tooLong := event(e.Type, e.Data); tooLong != nil {
				p.err = fmt.Errorf("an event that is too long: %w", tooLong)
				return
			}
			continue
		}
		if p.value != nil {
			p.err = errors.New("more than one value that isn't an event; print one reply, and events as {\"kind\":\"event\",\"type\":…,\"data\":…}")
			return
		}
		p.value = value.Clone()
		_ = p.value.Compact()
	}
}
