package history

import (
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// One call shows what failed, and why.
func TestListShowsFailedRequestsWithTheirErrors(t *testing.T) {
	k := kerneltest.Of(t, nil, Module(shop(t), nil))
	_, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.List", `{"failed":true}`))
	text := string(got.Data)
	if got.Kind != message.KindReply || !strings.HasPrefix(text, `{"failures":[{"error":{"kind":"error",`) || !strings.Contains(text, `,"request":{"kind":"`) {
		t.Errorf("got %s %s", got.Kind, text)
	}
	if _, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.List", `{"failed":true,"kind":"reply"}`)); got.Kind != message.KindError {
		t.Errorf("got %s", got.Data)
	}
}

func TestGraphTakesBothNamesOfAWorkflow(t *testing.T) {
	k := kerneltest.Of(t, nil, Module(shop(t), nil))
	for data, want := range map[string]string{
		`{"correlation":"none-such"}`:   "Workflow not found: none-such",
		`{"correlationId":"none-such"}`: "Workflow not found: none-such",
		`{}`:                            "missing required field: one of correlation, correlationId",
		`{"correlation":"a","correlationId":"b"}`: "only one of correlation, correlationId may be given",
	} {
		for _, name := range []message.Type{"Message.Graph", "Message.Replay"} {
			if _, got := kerneltest.Exchange(k, kerneltest.Query("ask", name, data)); !strings.Contains(string(got.Data), want) {
				t.Errorf("%s %s: got %s", name, data, got.Data)
			}
		}
	}
}

func TestVolatileMembersAreNotDifferences(t *testing.T) {
	volatile := []string{"headers.date", "headers.x-cache*", "modified", "list.at"}
	if !sameOutcome(volatile, []byte(`{"list":[{"at":1,"n":1},2]}`), []byte(`{"list":[{"n":1,"at":2},2]}`)) ||
		sameOutcome(volatile, []byte(`{"list":[{"at":1,"n":1}]}`), []byte(`{"list":[{"at":1,"n":2}]}`)) || !sameOutcome([]string{"*"}, []byte(`{"a":1}`), []byte(`{"b":2}`)) {
		t.Error("members of the elements of a list are compared with what is volatile among them")
	}
	const was = `{"status":200,"headers":{"date":"1","etag":"a","x-cache-hits":"1"},"modified":1}`
	for now, same := range map[string]bool{
		`{"status":200,"headers":{"date":"2","etag":"a","x-cache-hits":"2"},"modified":2}`: true,
		`{"modified":1,"headers":{"etag":"a"},"status":200}`:                               true,
		`{"status":200,"headers":{"date":"1","etag":"b","x-cache-hits":"1"},"modified":1}`: false,
		`{"status":404,"headers":{"date":"1","etag":"a","x-cache-hits":"1"},"modified":1}`: false,
	} {
		if got := sameOutcome(volatile, []byte(was), []byte(now)); got != same {
			t.Errorf("%s: %t", now, got)
		}
	}
}

// A caller that doesn't see everything isn't told that there is nothing.
func TestAMissingWorkflowOfATokenMayBeHidden(t *testing.T) {
	k := kerneltest.Of(t, nil, Module(shop(t), nil))
	token := kernel.ActFor(t.Context(), kernel.From(kerneltest.Principal(t, "01", "ci", principal.Grant{Allow: []string{"*"}}), "ws"))
	const note = "only what token ci may see was searched"
	for _, name := range []message.Type{"Message.Graph", "Message.Replay"} {
		ask := kerneltest.Query("ask", name, `{"correlation":"none-such"}`)
		if got := kerneltest.Outcome(token, k, ask); !strings.Contains(string(got.Data), note) {
			t.Errorf("%s of a token: got %s", name, got.Data)
		}
		if got := kerneltest.Outcome(t.Context(), k, ask); strings.Contains(string(got.Data), "only") {
			t.Errorf("%s of the owner: got %s", name, got.Data)
		}
	}
}
