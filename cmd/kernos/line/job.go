package line

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
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

// outcome returns an error if the reply of the method means that what was asked for has failed, such as the job that was
// waited for.
func (c *call) outcome(reply json.RawMessage) error {
	if c.method == nil {
		return nil
	}
	if text := terminal.Failure(&c.method.Presentation, reply); text != "" {
		return &exit.Error{Status: exit.Failure, Cause: errors.New(text)}
	}
	return nil
}
