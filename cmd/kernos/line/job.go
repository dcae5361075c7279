package line

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"kernos/client"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
	"kernos/message"
)

// background turns the call into the start of a job that makes it, and returns the parameters of
// that: from here on, the call is one of Job.Start.
func (c *call) background(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	if c.Watch {
		return nil, errors.New("--watch shows answers, and a job gives its id only: leave one of --watch and --background out")
	}
	if reply := c.answer(); reply != nil && slices.ContainsFunc(reply.Fields, func(f *client.Field) bool { return f.Sensitive }) {
		return nil, fmt.Errorf("the answer of %s.%s has a secret, which a job doesn't keep: leave --background out", c.module, c.name)
	}
	_, name := c.messageType()
	job := jsonvalue.Object{}.Set("name", jsonString(string(name))).Set("payload", messageData(params))
	for _, option := range [][2]string{{"delay", c.Delay}, {"at", c.At}, {"schedule", c.Schedule}} {
		if option[1] != "" {
			job = job.Set(option[0], jsonString(option[1]))
		}
	}
	if c.Timeout > 0 { // how long the job may take: its start is answered at once
		job = job.Set("timeout", jsonString(time.Duration(c.Timeout).String()))
		c.Timeout = 0
	}
	c.module, c.name, c.method, c.unlisted, c.command, c.show = "job", "start", nil, false, nil, nil
	if c.catalog != nil {
		m, err := c.catalog.Method(ctx, c.module, c.name)
		if err != nil {
			return nil, &exit.Error{Status: exit.Unknown, Cause: fmt.Errorf("the server runs no jobs (%w); leave --background out", err)}
		}
		c.method = m
	}
	if c.Show.Mode == "" && c.Show.Filter == "" && c.Show.Template == "" {
		c.Show.Filter = ".jobId"
	}
	return job.Text(), nil
}

func jsonString(text string) json.RawMessage {
	out, _ := json.Marshal(text) // never fails
	return out
}

// outcome returns an error if the answer to a call means that what was asked for has failed: the job that was waited for,
// the code that was tested, or the code that was to be removed and isn't registered.
func (c *call) outcome(data json.RawMessage) error {
	switch c.module + " " + c.name {
	case "job wait":
		_, err := jobOutcome(data)
		return err
	case "syscall test":
		return testOutcome(data)
	case "syscall unregister":
		if string(jsonvalue.Members(data).Get("unregistered")) == "false" {
			return &exit.Error{Status: exit.Failure, Cause: errors.New("nothing was removed: no code is registered under this name; kernos ls lists the syscalls")}
		}
	}
	return nil
}

// testOutcome returns an error if code has failed, by what Syscall.Test has replied.
func testOutcome(data json.RawMessage) error {
	var test struct {
		Error *struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(data, &test); err != nil {
		return exit.Wrap(fmt.Errorf("the answer of Syscall.Test can't be read: %w", err))
	}
	if test.Error == nil {
		return nil
	}
	return &exit.Error{Status: exit.Failure, Cause: errors.New(visible.Text(fmt.Sprintf("the code has failed: %d %s", test.Error.Code, test.Error.Message)))}
}

// jobOutcome reports whether a job has ended, by what Job.Wait has replied. The error isn't nil if
// the job hasn't succeeded.
func jobOutcome(data json.RawMessage) (ended bool, err error) {
	var job struct {
		JobID, Status string
		Error         json.RawMessage
	}
	if err := json.Unmarshal(data, &job); err != nil {
		return true, exit.Wrap(fmt.Errorf("the answer of Job.Wait can't be read: %w", err))
	}
	text := fmt.Sprintf("the job %s is still %s; kernos job wait %s waits for it", job.JobID, job.Status, job.JobID)
	switch job.Status {
	case "completed":
		return true, nil
	case "failed":
		ended = true
		e := message.ReadError(job.Error)
		text = fmt.Sprintf("the job %s has failed: %d %v", job.JobID, e.Code, e)
	}
	return ended, &exit.Error{Status: exit.Failure, Cause: errors.New(visible.Text(text))}
}
