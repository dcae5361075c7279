package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"kernos/capability/lifecycle"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// Whatever needs a person is a row: approvals first, then jobs, schedules and notifications, each the latest first.
func TestAttention(t *testing.T) {
	now := time.Now().UnixMilli()
	said := map[message.Type]string{
		"Session.List": `{"sessions":[{"session":"S1","title":"Trip","updated":5,"asks":[{"call":"c1","name":"Http.Fetch"},{"call":"c2","name":"VFS.Write"}]},{"session":"S2","updated":7}]}`,
		"Job.List": `{"jobs":[{"jobId":"J4","name":"Memory.Get","ended":40,"scheduleId":"T1","error":{"code":404,"message":"no"}},{"jobId":"J3","name":"Memory.Get","ended":30,"scheduleId":"T1","error":{"code":404,"message":"no"}},` +
			`{"jobId":"J2","ended":20,"error":{"code":499,"message":"The job was canceled"}},{"jobId":"J1","ended":50,"error":{"code":500,"message":"broken"}}]}`,
		"Notify.List": `{"notifications":[{"id":"N1","title":"Hey","text":"drink","from":"owner","at":9}],"waiting":1}`,
	}
	planned := fmt.Sprintf(`{"jobs":[{"jobId":"T1","name":"Memory.Get","schedule":"@every 1h","created":1,"missed":3,"missedAt":%d},`+
		`{"jobId":"T2","name":"Echo","schedule":"@every 1m","created":2,"missed":3,"missedAt":3},{"jobId":"T3","name":"Echo","schedule":"@every 1m","created":4,"paused":"the token ended"}]}`, now)
	var modules []kernel.Module
	for name, text := range said {
		define := func(_ context.Context, in map[string]any) (kernel.Raw, error) {
			if in["schedule"] == true {
				return kernel.Raw(planned), nil
			}
			return kernel.Raw(text), nil
		}
		modules = append(modules, kerneltest.Module(strings.ToLower(name.Domain()), kernel.Query(kernel.Definition{Type: name, Summary: "List.", Input: schema.Any, Output: schema.Any}, define)))
	}
	k := withModule(t, nil, lifecycle.Options{}, modules...)
	var out struct {
		Needs []lifecycle.Need
		Note  string
	}
	read := func(m message.Message) (rows []string) {
		out.Needs = nil
		if err := json.Unmarshal(m.Data, &out); err != nil || m.Kind != message.KindReply {
			t.Fatalf("%v: %s", err, m.Data)
		}
		for _, n := range out.Needs {
			rows = append(rows, fmt.Sprintf("%s %s: %s: %s", n.Kind, n.ID, n.What, n.Command))
		}
		return rows
	}
	want := []string{
		"approval S1: Http.Fetch, in Trip: kernos chat --resume S1", "approval S1: VFS.Write, in Trip: kernos chat --resume S1",
		"job J1: steps: 500 broken: kernos job retry J1", "job J4: Memory.Get: 404 no: kernos job retry J4",
		"schedule T1: Memory.Get, @every 1h: 3 of its times were missed: kernos job status T1", "schedule T3: Echo, @every 1m: paused: the token ended: kernos job resume T3",
		"notification N1: Hey: drink (from owner): kernos notify seen N1",
	}
	if got := read(kerneltest.Answer(t, k, kerneltest.Query("a", "Kernel.Attention", `{}`))); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}

	// What the caller may not list is left out.
	p := kerneltest.Principal(t, "01", "ci", principal.Grant{Allow: []string{"Kernel.Attention", "Notify.List"}})
	if got := read(kerneltest.Outcome(kernel.ActFor(t.Context(), kernel.From(p, "ws")), k, kerneltest.Query("b", "Kernel.Attention", `{}`))); len(got) != 1 || !strings.HasPrefix(got[0], "notification N1") || out.Note == "" {
		t.Errorf("a token gets %q, %q", got, out.Note)
	}
	// A kernel without them has nothing to show.
	if got := read(kerneltest.Answer(t, withModule(t, nil, lifecycle.Options{}), kerneltest.Query("c", "Kernel.Attention", `{}`))); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}
