package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/backoff"
	"kernos/internal/mcp"
)

// The pauses between looks at a task: what the server asks for, in these bounds.
const (
	firstLook    = 500 * time.Millisecond
	shortestLook = 20 * time.Millisecond
	longestLook  = 10 * time.Second
)

// A task is how a server answers what takes long: as a member of the result up to 2025-11-25, and later as the result.
type task struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Note    string `json:"statusMessage"`
	Pause   int64  `json:"pollInterval"`   // milliseconds, up to 2025-11-25
	PauseMs int64  `json:"pollIntervalMs"` // later

	// Later.
	Requests inputRequests  `json:"inputRequests"`
	Result   jsontext.Value `json:"result"`
	Error    *Error         `json:"error"`
}

// wantsTask reports whether a server has refused a call because its client has to follow a task.
func (c *Conn) wantsTask(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || !c.stateless || e.Code != mcp.MissingCapability {
		return false
	}
	var data struct {
		Required struct {
			Extensions map[string]jsontext.Value `json:"extensions"`
		} `json:"requiredCapabilities"`
	}
	_ = json.Unmarshal(e.Data, &data)
	_, wants := data.Required.Extensions[mcp.TasksExtension]
	return wants
}

// followLegacy waits for the task of a call, up to 2025-11-25, and returns the result of the call.
func (c *Conn) followLegacy(ctx context.Context, r *Request, text jsontext.Value) (jsontext.Value, error) {
	var of struct {
		Task *task `json:"task"`
	}
	if err := json.Unmarshal(text, &of); err != nil || of.Task == nil || of.Task.ID == "" {
		return text, nil //nolint:nilerr // it is the result itself
	}
	defer c.cancelTask(ctx, of.Task.ID)
	for t := *of.Task; t.Status == "working" || t.Status == "submitted"; {
		if err := c.look(ctx, r, &t, cmp.Or(t.Pause, t.PauseMs)); err != nil {
			return nil, err
		}
	}
	return c.request(ctx, &Request{Method: "tasks/result"}, &params{TaskID: of.Task.ID}) // asks for input, if it is required
}

// follow waits for a task of the stateless era, and returns the result of the call.
func (c *Conn) follow(ctx context.Context, r *Request, text jsontext.Value) (jsontext.Value, error) {
	var t task
	if err := json.Unmarshal(text, &t); err != nil || t.ID == "" {
		return nil, &broken{fmt.Errorf("it has answered %s with a task without a name", r.Method)}
	}
	defer c.cancelTask(ctx, t.ID)
	for {
		switch t.Status {
		case "completed":
			return t.Result, nil
		case "failed":
			return nil, cmp.Or(t.Error, &Error{Code: mcp.InternalError, Message: "the task has failed"})
		case "cancelled":
			return nil, &Error{Code: mcp.InternalError, Message: "the task was cancelled"}
		case "input_required":
			responses, err := c.respond(t.Requests)
			if err == nil {
				_, err = c.request(ctx, &Request{Method: "tasks/update", Task: true}, &params{TaskID: t.ID, Responses: responses})
			}
			if err != nil {
				return nil, err
			}
		}
		if err := c.look(ctx, r, &t, t.PauseMs); err != nil {
			return nil, err
		}
	}
}

// look reads a task again after a pause of some milliseconds.
func (c *Conn) look(ctx context.Context, r *Request, t *task, pause int64) error {
	wait := min(max(time.Duration(min(pause, longestLook.Milliseconds()))*time.Millisecond, shortestLook), longestLook)
	if pause <= 0 {
		wait = firstLook
	}
	if p := (backoff.Backoff{First: wait, Longest: wait}); !p.Wait(ctx.Done()) {
		return ctx.Err()
	}
	text, err := c.request(ctx, &Request{Method: "tasks/get", Task: c.stateless}, &params{TaskID: t.ID})
	if err != nil {
		return err
	}
	now := task{}
	if err := json.Unmarshal(text, &now); err != nil || now.Status == "" {
		return &broken{errors.New("it has answered tasks/get with what isn't a task")}
	}
	if now.Note != "" && now.Note != t.Note && r.Progress != nil {
		r.Progress(now.Note, 0)
	}
	now.ID = t.ID
	*t = now
	return nil
}

// cancelTask cancels a task that is no longer waited for.
func (c *Conn) cancelTask(ctx context.Context, id string) {
	if ctx.Err() == nil {
		return
	}
	c.work.Go(func() {
		ctx, done := context.WithTimeout(c.life, closeTime)
		defer done()
		_, _ = c.request(ctx, &Request{Method: "tasks/cancel", Task: c.stateless}, &params{TaskID: id})
	})
}
