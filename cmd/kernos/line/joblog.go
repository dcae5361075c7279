package line

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
	"kernos/message"
)

// logsEvery is how often kernos job logs --follow looks for new lines while the job runs.
const logsEvery = 300 * time.Millisecond

// A JobLog shows the output of a job.
type JobLog struct {
	Call   server.Caller
	Screen *terminal.Screen
	ID     string
	Print  func(json.RawMessage) error // nil for lines that people read
	shown  int                         // how many lines of its output were shown
}

// Show shows the output of the job so far, and with follow also what comes until the job has ended.
func (l *JobLog) Show(ctx context.Context, follow bool) error {
	if !follow {
		return l.more(ctx)
	}
	for {
		wait := map[string]any{"jobId": l.ID, "timeout": logsEvery.Milliseconds()}
		data, err := server.Send(ctx, l.Call, message.KindQuery, "Job.Wait", wait, nil)
		if err != nil {
			return err
		}
		if err := l.more(ctx); err != nil {
			return err
		}
		switch string(jsonvalue.Members(data).Get("status")) {
		case `"completed"`:
			return nil
		case `"failed"`:
			return &exit.Error{Status: exit.Failure, Cause: errors.New(l.failure(data))}
		}
	}
}

// failure says why a job has failed, by the reply of Job.Wait.
func (l *JobLog) failure(reply json.RawMessage) string {
	wait, ok := builtIn("job_wait")
	if !ok {
		return "the job has failed"
	}
	return terminal.Failure(&client.Presentation{Failure: wait.Syscall.Failure}, reply)
}

// more shows the lines that are new.
func (l *JobLog) more(ctx context.Context) error {
	var said struct {
		Log []struct {
			At   int64  `json:"at"`
			Text string `json:"text"`
		}
		Dropped int
	}
	if err := server.Read(ctx, l.Call, message.KindQuery, "Job.Result", map[string]any{"jobId": l.ID, "log": true}, &said); err != nil {
		return err
	}
	if lost := said.Dropped - l.shown; lost > 0 {
		l.Screen.Note("%s before these were dropped: a job keeps its last 200", terminal.Count(lost, "line", "lines"))
		l.shown = said.Dropped
	}
	for _, line := range said.Log[min(l.shown-said.Dropped, len(said.Log)):] {
		var err error
		if l.Print == nil {
			err = l.Screen.Line(time.UnixMilli(line.At).In(l.Screen.Now.Location()).Format(time.TimeOnly) + "  " + visible.Text(line.Text))
		} else if object, encodeErr := json.Marshal(line); encodeErr == nil {
			err = l.Print(object)
		} else {
			err = encodeErr
		}
		if err != nil {
			return err
		}
		l.shown++
	}
	return nil
}
