package mcphost_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
)

// begin answers a call with a task, in the way of the era. One that doesn't want a task is refused.
func (f *fake) begin(in *frame) any {
	wants := in.Params.Task != nil
	if f.is("stateless") {
		wants = strings.Contains(fmt.Sprint(in.Params.Meta["io.modelcontextprotocol/clientCapabilities"]), "io.modelcontextprotocol/tasks")
	}
	if !wants {
		return rpcError{-32021, "a task is required", object{"requiredCapabilities": object{"extensions": object{"io.modelcontextprotocol/tasks": object{}}}}}
	}
	task := object{"taskId": in.Params.Name + "-1", "status": "working", "pollInterval": 20, "pollIntervalMs": 20}
	if f.is("stateless") {
		task["resultType"] = "task"
		return task
	}
	return object{"task": task}
}

// task answers what is asked about a task. One that is long wants a form when it is looked at for the second time.
func (f *fake) task(in *frame) any {
	f.note("tasks", in.Method)
	task := object{"taskId": in.Params.TaskID, "status": "working", "pollInterval": 20, "pollIntervalMs": 20, "resultType": "complete"}
	seen := 0
	for _, line := range (&world{dir: f.dir}).noted("tasks") {
		if line == in.Method {
			seen++
		}
	}
	switch {
	case in.Method == "tasks/result":
		return text("at last")
	case in.Method == "tasks/update":
		f.note("answers", string(in.Params.Responses))
	case in.Params.TaskID == "long-1" && seen == 1:
		task["statusMessage"] = "half of it is done"
	case in.Params.TaskID == "long-1" && seen == 2 && f.is("stateless"):
		task["status"], task["inputRequests"] = "input_required", object{"sure": object{"method": "elicitation/create", "params": object{"mode": "form", "requestedSchema": object{"type": "object"}}}}
	case in.Params.TaskID == "long-1":
		task["status"], task["result"] = "completed", text("at last")
	}
	return task
}

// A tool that is called as a task only is followed until it has its result, in both eras and over both wires, and cancelled when
// no caller waits for it.
func TestToolsThatAreTasks(t *testing.T) {
	for _, mode := range []string{"stateless tasks", "stateful tasks"} {
		for _, over := range []string{"stdio", "HTTP"} {
			w := newWorld(t)
			if over == "HTTP" {
				w.must("Mcp.Add", `{"name":"fake","url":"`+serveHTTP(t, mode, w.dir)+`"}`, nil)
			} else {
				w.must("Mcp.Add", w.child("fake", mode), nil)
			}
			var got string
			w.must("Fake.Long", `{}`, &got)
			if asked := strings.Join(w.noted("tasks"), " "); !strings.Contains(got, "at last") || !strings.HasPrefix(asked, "tasks/get tasks/get") || mode == "stateless tasks" && !strings.Contains(strings.Join(w.noted("answers"), ""), `{"sure":{"action":"decline"}}`) {
				t.Errorf("%s over %s: %s after %s", mode, over, got, asked)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended, before := make(chan struct{}), len(w.noted("tasks"))
			go func() {
				defer close(ended)
				_, _ = w.Call(ctx, message.Message{Kind: message.KindCommand, Type: "Fake.Endless", Data: []byte(`{}`)}, nil)
			}()
			testkit.Until(t, "the task is followed", func() bool { return len(w.noted("tasks")) > before })
			cancel()
			<-ended
			testkit.Until(t, "the task is cancelled", func() bool { return strings.Contains(strings.Join(w.noted("tasks"), " "), "tasks/cancel") })
		}
	}
}
