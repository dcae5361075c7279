//go:build unix

package daemon_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kernos/capability/model/modeltest"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

// The rules of a session hold in jobs, their steps, code and replays, where a call can't wait for a
// decision.
func TestRulesOfASessionHoldInWhatItStarts(t *testing.T) {
	var posts atomic.Int32
	post := kernel.Command(kernel.Definition{Type: "Test.Post", Summary: "Post.", Behavior: kernel.Behavior{Effect: kernel.External}}, func(context.Context, struct{}) (string, error) {
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
	d := serveJobs(t, &daemon.Options{Home: t.TempDir(), Models: server.Models(), Modules: []kernel.Module{kerneltest.Module("test", post)}})
	d.must("Syscall.Register", `{"name":"Text.Sneak","kind":"command","code":"export const handler = async () => await kernos.call('Test.Post', {})","inputSchema":{},"outputSchema":{}}`, new(any))
	d.must("Test.Post", `{}`, new(any))
	var recorded struct {
		Messages []struct{ Metadata struct{ ID string } }
	}
	d.must("Message.List", `{"type":"Test.Post","kind":"command"}`, &recorded)
	posts.Store(0)
	var created struct{ Session string }
	d.must("Session.Create", `{"model":"anthropic","tools":["Job.*","Text.*","Message.*","Test.*"],"policy":[{"match":"Text.*","decide":"allow"},{"match":"Message.*","decide":"allow"}]}`, &created)
	send := func(text string) (out struct{ Status, Text string }) {
		t.Helper()
		d.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":%q,"wait":true}`, created.Session, text), &out)
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
		d.must("Session.Messages", fmt.Sprintf(`{"session":%q,"limit":1000}`, created.Session), &all)
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
			d.must("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.Process.ID), &ended)
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
	d.must("Session.Get", fmt.Sprintf(`{"session":%q}`, created.Session), &now)
	d.must("Session.Messages", fmt.Sprintf(`{"session":%q,"after":%d}`, created.Session, now.Seq-1), &last)
	if len(last.Messages) != 1 || last.Messages[0].TextRef == nil {
		t.Errorf("a long text isn't by pointer: %+v", last)
	}
	if out := send("And on"); out.Status != "done" {
		t.Errorf("got %+v", out)
	}
}

// A job that a model starts is a process container in the results of its call: the process is the job, which still runs.
//
// Clauses: COG-9
func TestAJobOfASessionIsAProcess(t *testing.T) {
	finish := make(chan struct{})
	long := kernel.Command(kernel.Definition{Type: "Test.Long", Summary: "Take long.", Behavior: kernel.Behavior{Runs: kernel.Slow}}, func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-finish:
			return "ready", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	var asked atomic.Int32
	var shown atomic.Pointer[string] // to the model, with the result
	server := modeltest.ServeFunc(t, func(_ string, body []byte) modeltest.Answer {
		if asked.Add(1) == 1 {
			return modeltest.Answer{Calls: []modeltest.Call{{Name: "Job.Start", Args: `{"name":"Test.Long","payload":{}}`}}}
		}
		text := string(body)
		shown.Store(&text)
		return modeltest.Answer{Text: "It runs."}
	})
	d := serveJobs(t, &daemon.Options{Home: t.TempDir(), Models: server.Models(), Modules: []kernel.Module{kerneltest.Module("test", long)}})
	var created struct{ Session string }
	d.must("Session.Create", `{"model":"anthropic","tools":["Job.Start","Test.Long"],"policy":[{"match":"*","decide":"allow"}]}`, &created)
	d.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"Begin it","wait":true}`, created.Session), new(any))
	var all struct {
		Messages []struct {
			Type    string
			Calls   []struct{ ID string }
			Results []struct {
				CallID string
				Output struct {
					Process struct {
						ID, Type, Status string
						State            struct{ JobID string }
					}
				}
			}
		}
	}
	d.must("Session.Messages", fmt.Sprintf(`{"session":%q}`, created.Session), &all)
	if len(all.Messages) != 4 || all.Messages[1].Type != "tool-calls" || all.Messages[2].Type != "tool-results" {
		t.Fatalf("the session has %+v", all.Messages)
	}
	result := all.Messages[2].Results[0]
	process := result.Output.Process
	if result.CallID != all.Messages[1].Calls[0].ID || process.Type != "job" || process.Status != "pending" || process.State.JobID != process.ID {
		t.Errorf("the result is %+v", result)
	}
	if body := *shown.Load(); !strings.Contains(body, process.ID) {
		t.Errorf("the model doesn't see the process: %s", body)
	}
	var now struct {
		Status string
		Result string
	}
	if d.must("Job.Status", fmt.Sprintf(`{"jobId":%q}`, process.ID), &now); now.Status != "pending" && now.Status != "running" {
		t.Errorf("the job is %+v", now)
	}
	close(finish)
	if d.must("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, process.ID), &now); now.Status != "completed" || now.Result != "ready" {
		t.Errorf("the job is %+v", now)
	}
}

// conversation is a session as tests look at it.
type conversation struct {
	Messages []struct {
		Type, Text string
		Partial    bool
		Files      []struct {
			Data    string
			DataRef *message.BlobPointer
		}
	}
}

// A cancel closes the connection to a provider that never ends its answer, and what was said is kept.
func TestACancelLeavesTheProvider(t *testing.T) {
	server := modeltest.Serve(t, modeltest.Answer{Text: strings.Repeat("word ", 40), Hold: make(chan struct{})})
	d := serveJobs(t, &daemon.Options{Home: t.TempDir(), Models: server.Models()})
	for model := range server.Models() {
		var created struct{ Session string }
		d.must("Session.Create", fmt.Sprintf(`{"model":%q}`, model), &created)
		session := fmt.Sprintf(`{"session":%q}`, created.Session)
		said, replied := make(chan struct{}), make(chan message.Message)
		once := sync.OnceFunc(func() { close(said) })
		go func() {
			send := message.Message{Kind: message.KindCommand, Type: "Session.Send", Data: fmt.Appendf(nil, `{"session":%q,"text":"go","wait":true}`, created.Session)}
			m, _ := d.Call(t.Context(), send, func(m message.Message) {
				if m.Type == "Session.Streamed" {
					once()
				}
			})
			replied <- m
		}()
		<-said
		d.must("Session.Cancel", session, new(any))
		testkit.Until(t, "the provider is left", func() bool { return server.Open() == 0 })
		if m := <-replied; !strings.Contains(string(m.Data), `"status":"canceled","text":"word `) {
			t.Errorf("%s: got %s", model, m.Data)
		}
		var all conversation
		d.must("Session.Messages", session, &all)
		if last := all.Messages[len(all.Messages)-1]; last.Type != "reply" || !last.Partial || !strings.HasPrefix(last.Text, "word ") {
			t.Errorf("%s: got %+v", model, all)
		}
	}
}

// Files go through a session: a small one stays in its message, a large one is a blob, both
// providers are shown them, and Session.Delete leaves nothing that keeps a blob.
func TestFilesInASession(t *testing.T) {
	server := modeltest.Serve(t, modeltest.Answer{Text: "Seen."})
	kept, dir := storetest.NewMemory(), t.TempDir()
	d := serveJobs(t, &daemon.Options{Home: dir, Models: server.Models(), OpenStore: func(string) (store.Store, error) { return kept, nil }})
	files, err := blobs.New(filepath.Join(daemon.Home{Dir: dir, Origin: store.DefaultOrigin}.State(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	small := base64.StdEncoding.EncodeToString([]byte("milk and bread"))
	for model, shown := range map[string]string{
		"openai":    `"image_url":{"url":"data:image/png;base64,%s"}`,
		"anthropic": `"source":{"type":"base64","media_type":"image/png","data":"%s"}`,
	} {
		bytes := strings.Repeat(model, 1000)
		large := base64.StdEncoding.EncodeToString([]byte(bytes))
		var created struct{ Session string }
		d.must("Session.Create", fmt.Sprintf(`{"model":%q}`, model), &created)
		session := fmt.Sprintf(`{"session":%q}`, created.Session)
		sent := fmt.Sprintf(`{"session":%q,"files":[{"data":%q,"filename":"list.txt","mimeType":"text/plain"},{"data":%q,"filename":"a.png","mimeType":"image/png"}],"wait":true}`, created.Session, small, large)
		for range 2 { // the second time they are a part of the history
			d.must("Session.Send", sent, new(any))
			all := server.Requests()
			if body := string(all[len(all)-1]); !strings.Contains(body, fmt.Sprintf(shown, large)) || !strings.Contains(body, "milk and bread") {
				t.Errorf("%s was shown %.500s", model, body)
			}
			sent = fmt.Sprintf(`{"session":%q,"text":"And now?","wait":true}`, created.Session)
		}
		var whole struct{ conversation }
		d.must("Session.Export", session, &whole)
		input := whole.Messages[0]
		if len(input.Files) != 2 || input.Files[0].Data != small || input.Files[1].Data != "" || input.Files[1].DataRef == nil {
			t.Fatalf("%s: the input is %+v", model, input)
		}
		if _, err := files.Collect(t.Context(), kept, 0, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		var read struct{ Text string }
		ref, _ := json.Marshal(input.Files[1].DataRef)
		d.must("Blob.Read", fmt.Sprintf(`{"ref":%s}`, ref), &read)
		if read.Text != bytes {
			t.Errorf("%s: the file that the session needs is %.100s", model, read.Text)
		}
		d.must("Session.Delete", session, new(any))
		for e, err := range kept.Scan(store.Prefix([]byte{store.SpaceBlobs})) {
			// The journal may keep it, since the request of Blob.Read names the blob.
			if owner := e.Key[1+sha256.Size:]; err != nil || owner[0] != store.SpaceJournal {
				t.Errorf("%s: %q keeps the blob of a session that is deleted (%v)", model, owner, err)
			}
		}
	}
}
