package history

import (
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
)

// The id of a job means the workflow that it belongs to, before it has run and afterwards.
func TestAJobNamesItsWorkflow(t *testing.T) {
	j := new(memoryJournal)
	for i, line := range []string{
		said("command", "Job.Start", `{"name":"Echo"}`, "j1"),
		said("reply", "Job.Start", `{"jobId":"waits","status":"pending"}`, "j2<j1"),
		said("command", "Job.Start", `{"name":"Echo"}`, "k1@week"),
		said("reply", "Job.Start", `{"jobId":"ran","status":"pending"}`, "k2<k1@week"),
		said("event", "Job.Started", `{"jobId":"ran","name":"Echo","attempt":1}`, "k3<k1@week"),
		said("event", "Job.Started", `{"jobId":"week","name":"Echo","attempt":1}`, "m1<m0@month"),
	} {
		j.add(entry(t, int64(i), kernel.In, line))
	}
	k := kerneltest.Of(t, nil, Module(j, nil))
	for data, want := range map[string]string{
		`{"correlation":"waits","format":"tree"}`: "j1",
		`{"correlation":"ran","format":"tree"}`:   "k1",
		`{"correlation":"week","format":"tree"}`:  "k1", // a workflow comes before a job of the same name
		`{"correlation":"rannot","format":"tree"}`: "404 Workflow not found: rannot " +
			"(no message and no job in the journal has this correlation or this id)",
	} {
		text := answered(kerneltest.Answer(t, k, kerneltest.Query("q", "Message.Graph", data)))
		if !strings.Contains(text, want) {
			t.Errorf("%s: got %s, want %s", data, text, want)
		}
	}
}
