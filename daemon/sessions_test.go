//go:build unix

package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/daemon"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// The rules of a session hold in jobs, their steps, code and replays, where a call can't wait for a
// decision.
func TestRulesOfASessionHoldInWhatItStarts(t *testing.T) {
	var posts atomic.Int32
	post := kernel.Command(kernel.Definition{Type: "Test.Post", Summary: "Post.", Effect: kernel.External}, func(context.Context, struct{}) (string, error) {
		posts.Add(1)
		return "posted", nil
	})
	var wanted atomic.Pointer[modeltest.Call]
	server := modeltest.ServeFunc(t, func(_ string, body []byte) modeltest.Answer {
		if c := wanted.Swap(nil); c != nil {
			return modeltest.Answer{Calls: []modeltest.Call{*c}}
		}
		if bytes.Contains(body, []byte("a long story")) {
			return modeltest.Answer{Text: strings.Repeat("Once upon a time. ", 5000)}
		}
		return modeltest.Answer{Text: "Done."}
	})
	_, call := serveJobs(t, &daemon.Options{Home: t.TempDir(), Models: server.Models(), Modules: []kernel.Module{kerneltest.Module("test", post)}})
	must := func(what message.Type, data string, out any) {
		t.Helper()
		if e := call(what, data, out); e != nil {
			t.Fatalf("%s %s: %d %v", what, data, e.Code, e)
		}
	}
	must("Syscall.Register", `{"name":"Text.Sneak","kind":"command","code":"export const handler = async () => await kernos.call('Test.Post', {})","inputSchema":{},"outputSchema":{}}`, new(any))
	must("Test.Post", `{}`, new(any))
	var recorded struct {
		Messages []struct{ Metadata struct{ ID string } }
	}
	must("Message.List", `{"type":"Test.Post","kind":"command"}`, &recorded)
	posts.Store(0)
	var created struct{ Session string }
	must("Session.Create", `{"model":"anthropic","tools":["Job.*","Text.*","Message.*","Test.*"],"policy":[{"match":"Text.*","decide":"allow"},{"match":"Message.*","decide":"allow"}]}`, &created)
	send := func(text string) (out struct{ Status, Text string }) {
		t.Helper()
		must("Session.Send", fmt.Sprintf(`{"session":%q,"text":%q,"wait":true}`, created.Session, text), &out)
		return out
	}
	for _, c := range []struct{ name, args, refused string }{
		{"Job.Start", `{"name":"Test.Post","payload":{}}`, "needs an approval"},
		{"Job.Start", `{"steps":[{"id":"a","name":"Test.Post","payload":{}}]}`, "needs an approval"},
		{"Text.Sneak", `{}`, "needs an approval"},
		{"Message.Replay", fmt.Sprintf(`{"correlation":%q,"execute":true}`, recorded.Messages[0].Metadata.ID), "kind command"}, // a session sends queries as queries
	} {
		name := c.name
		wanted.Store(&modeltest.Call{Name: name, Args: c.args})
		send("Do it")
		var all struct {
			Messages []struct {
				Type    string
				Results []struct {
					Output json.RawMessage
					Error  json.RawMessage
				}
			}
		}
		must("Session.Messages", fmt.Sprintf(`{"session":%q,"limit":1000}`, created.Session), &all)
		result := ""
		for _, m := range all.Messages {
			for _, r := range m.Results {
				result = string(r.Output) + string(r.Error)
			}
		}
		if name == "Job.Start" {
			var started struct {
				Process struct{ ID, Type, Status string }
			}
			if err := json.Unmarshal([]byte(strings.TrimSuffix(result, "null")), &started); err != nil || started.Process.Type != "job" {
				t.Fatalf("the result isn't a process: %s", result)
			}
			var ended json.RawMessage
			must("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.Process.ID), &ended)
			result = string(ended)
		}
		if posts.Load() != 0 || !strings.Contains(result, c.refused) {
			t.Errorf("%s: %d posts, %s", name, posts.Load(), result)
		}
	}
	send("Tell a long story")
	var last struct {
		Messages []struct{ TextRef *message.BlobPointer }
	}
	var now struct{ Seq uint64 }
	must("Session.Get", fmt.Sprintf(`{"session":%q}`, created.Session), &now)
	must("Session.Messages", fmt.Sprintf(`{"session":%q,"after":%d}`, created.Session, now.Seq-1), &last)
	if len(last.Messages) != 1 || last.Messages[0].TextRef == nil {
		t.Errorf("a long text isn't by pointer: %+v", last)
	}
	if out := send("And on"); out.Status != "done" {
		t.Errorf("got %+v", out)
	}
}
