package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/mcp/jsonrpc"
)

// tasks reports whether the client can follow tasks. A task is a job.
func (c *client) tasks() bool {
	return c.modern && jsonscan.Member(jsonscan.Member(c.capabilities, "extensions"), mcp.TasksExtension) != nil
}

// taskSupport returns how calls of a syscall become tasks.
func (s *Server) taskSupport(t message.Type) TaskSupport {
	if t == "Job.Start" || t == "Job.Retry" {
		return TaskReplied
	}
	for _, o := range s.opts.Offers {
		if o.Type == t && o.Task != NoTask {
			return o.Task
		}
	}
	return NoTask
}

// needsTasks returns the failure of a request for tasks of a client that can't follow them.
func needsTasks() *jsonrpc.Failure {
	return &jsonrpc.Failure{Code: mcp.MissingCapability, Text: "The request needs a client that can follow tasks", Data: required(map[string]any{"extensions": map[string]any{mcp.TasksExtension: struct{}{}}})}
}

// asJob returns the message that calls a tool as a job.
func asJob(t message.Type, data []byte) message.Message {
	start := marshal(struct {
		Name    message.Type    `json:"name"`
		Payload json.RawMessage `json:"payload"`
	}{t, data})
	return message.Message{Kind: message.KindCommand, Type: "Job.Start", Data: start}
}

// pollPause and taskLife are in each task that a client gets: how often to look at it, and how long it is kept.
const (
	pollPause = 500 * time.Millisecond
	taskLife  = 24 * time.Hour
)

// sendTask answers the call of a tool with the task that it has become. It is called with mu held.
func (x *exchange) sendTask(id string) {
	x.s.opts.Tasks.name(x.asked, id)
	now := time.Now().UnixMilli()
	x.sendResult(append(x.beginResult(resultTask, 0), membersOf(newTask(id, now, now))...))
}

// A shownTask is a task as the client gets it.
type shownTask struct {
	TaskID         string                `json:"taskId"`
	Status         string                `json:"status"`
	CreatedAt      string                `json:"createdAt"`
	LastUpdatedAt  string                `json:"lastUpdatedAt"`
	TTLMs          int64                 `json:"ttlMs"`
	PollIntervalMs int64                 `json:"pollIntervalMs"`
	StatusMessage  string                `json:"statusMessage,omitempty"`
	InputRequests  map[string]askRequest `json:"inputRequests,omitempty"`
	Result         json.RawMessage       `json:"result,omitempty"`
	Error          *taskError            `json:"error,omitempty"`
}

type taskError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// newTask returns a task that has begun, and is as of a time.
func newTask(id string, created, updated int64) shownTask {
	stamp := func(at int64) string { return time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z") }
	return shownTask{
		TaskID: id, Status: "working", CreatedAt: stamp(created), LastUpdatedAt: stamp(updated),
		TTLMs: taskLife.Milliseconds(), PollIntervalMs: pollPause.Milliseconds(),
	}
}

// A jobInfo is what Job.Status replies.
type jobInfo struct {
	JobID, Status         string
	Name                  message.Type
	Created, Began, Ended int64
	Result, Error         json.RawMessage
	Progress              struct{ Message string }
}

// job returns the job of a task, and the calls of sessions that wait for a decision, by their ids. If there is no
// such job for the caller, it has answered the request.
func (x *exchange) job() (info jobInfo, approvals map[string]approval, ok bool) {
	if !x.client.tasks() {
		x.fail(needsTasks())
		return info, nil, false
	}
	id := jsonscan.Unquote(jsonscan.Member(x.Params, "taskId"))
	approvals = make(map[string]approval)
	reply, err := x.invoke("Job.Wait", map[string]any{"jobId": id, "timeout": 1}, func(m message.Message) {
		if m.Type == "Session.Asked" {
			a := readApproval(m.Data)
			approvals[a.call] = a
		}
	})
	if err == nil {
		err = json.Unmarshal(reply, &info)
	}
	if err != nil {
		if e, _ := message.ErrorOf(err); e.Code == 404 || e.Code == 422 {
			x.fail(jsonrpc.Invalid("Unknown task: " + message.Clip(id, 100)))
		} else {
			x.fail(x.failedCall(err))
		}
	}
	return info, approvals, err == nil
}

// getTask answers tasks/get.
func getTask(x *exchange) {
	info, approvals, ok := x.job()
	if !ok {
		return
	}
	task := newTask(info.JobID, info.Created, cmp.Or(info.Ended, info.Began, info.Created))
	pending, note := x.s.opts.Tasks.pending(info.JobID), info.Progress.Message
	decides := len(approvals) > 0 && x.person() != nil
	for call, a := range approvals {
		if note = a.elsewhere(); decides {
			pending[call] = a.request()
		}
	}
	switch {
	case info.Status == "completed":
		task.Status, task.Result = "completed", x.taskResult(&info)
	case info.Status == "failed":
		task.fail(&info)
	case len(pending) > 0:
		task.Status, task.InputRequests = "input_required", pending
	default:
		task.StatusMessage = note
	}
	x.respond(membersOf(task))
}

// taskResult returns the result of the tool that a completed job has called.
func (x *exchange) taskResult(info *jobInfo) json.RawMessage {
	set, _ := x.s.toolsOf(kernel.SenderIn(x.ctx).Principal())
	if t := set.byName[string(info.Name)]; t != nil && t.content && len(jsonscan.Member(info.Result, "content")) > 0 {
		return info.Result
	}
	return append(x.appendResult([]byte{'{'}, info.Result, info.Result, nil, ""), '}')
}

// fail shows the outcome of a failed job. An error of the caller's is a result, as it is for a
// call that isn't a task; others are failures.
func (t *shownTask) fail(info *jobInfo) {
	e := message.ReadError(info.Error)
	switch {
	case e.Code == 499:
		t.Status = "cancelled"
		return
	case e.Code < 500:
		t.Status, t.Result = "completed", append(appendError([]byte{'{'}, info.Error), '}')
		return
	}
	t.Status, t.Error = "failed", &taskError{mcp.InternalError, e.Message, e.Append(nil)}
}

// updateTask answers tasks/update: the client answers what the job has asked.
func updateTask(x *exchange) {
	info, approvals, ok := x.job()
	if !ok {
		return
	}
	responses := jsonscan.Member(x.Params, "inputResponses")
	x.s.opts.Tasks.answer(info.JobID, responses)
	person := x.person()
	for call, a := range approvals {
		response := jsonscan.Member(responses, call)
		if form := a.request(); person != nil && form.answeredBy(response) {
			x.decided(x.ctx, person, a, response)
		}
	}
	x.respond(nil)
}

// cancelTask answers tasks/cancel.
func cancelTask(x *exchange) {
	info, _, ok := x.job()
	if !ok {
		return
	}
	if _, err := x.invoke("Job.Cancel", map[string]string{"jobId": info.JobID}, nil); err != nil {
		x.fail(x.failedCall(err))
		return
	}
	x.respond(nil)
}

// Tasks are what jobs have asked of the clients that started them. The zero value is usable.
type Tasks struct {
	mu     sync.Mutex
	begun  map[message.ID]*task // keys are the messages that started the jobs
	byJob  map[string]*task
	recent []message.ID
}

// A task is a job that a client follows.
type task struct {
	requests  map[string]askRequest // requests that aren't answered
	responses map[string]json.RawMessage
	answered  chan struct{} // closed when something is answered, and replaced: several calls may wait
	job       string
}

// maxTasks is how many tasks may ask something; the oldest are forgotten first.
const maxTasks = 10_000

// expect notes that a message starts a job for a client that can be asked.
func (t *Tasks) expect(starter message.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun == nil {
		t.begun, t.byJob = make(map[message.ID]*task), make(map[string]*task)
	}
	t.begun[starter] = &task{requests: make(map[string]askRequest), responses: make(map[string]json.RawMessage), answered: make(chan struct{})}
	if t.recent = append(t.recent, starter); len(t.recent) > maxTasks {
		oldest := t.recent[0]
		delete(t.byJob, t.begun[oldest].job)
		delete(t.begun, oldest)
		t.recent = t.recent[1:]
	}
}

// name notes which job a message has started.
func (t *Tasks) name(starter message.ID, job string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.begun[starter]; one != nil {
		one.job, t.byJob[job] = job, one
	}
}

// pending returns what a job has asked, which is the caller's to change.
func (t *Tasks) pending(job string) map[string]askRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	requests := make(map[string]askRequest)
	if one := t.byJob[job]; one != nil {
		maps.Copy(requests, one.requests)
	}
	return requests
}

// answer takes a client's responses to the requests of a job. Responses to other requests are ignored.
func (t *Tasks) answer(job string, responses []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byJob[job]
	if one == nil {
		return
	}
	for name, r := range one.requests {
		if value := jsonscan.Member(responses, name); r.answeredBy(value) {
			one.responses[name] = bytes.Clone(value)
			delete(one.requests, name)
		}
	}
	close(one.answered)
	one.answered = make(chan struct{})
}

// ask asks the client that follows the job of a call, and waits for its answers.
func (t *Tasks) ask(ctx context.Context, requests map[string]askRequest) (map[string]json.RawMessage, error) {
	c, ok := kernel.CallOf(ctx)
	if !ok || t == nil {
		return nil, errNoClient
	}
	t.mu.Lock()
	one := t.begun[c.Root().Request().Metadata.Causation]
	if one == nil {
		t.mu.Unlock()
		return nil, errNoClient
	}
	maps.Copy(one.requests, requests)
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for name := range requests {
			delete(one.requests, name)
			delete(one.responses, name)
		}
	}()
	for {
		t.mu.Lock()
		got := make(map[string]json.RawMessage)
		for name := range requests {
			if response, ok := one.responses[name]; ok {
				got[name] = response
			}
		}
		answered := one.answered
		t.mu.Unlock()
		if len(got) == len(requests) {
			return got, nil
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
