package http

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/transport/rpc"
)

// A client that comes back gets what came after the last event that it saw: a browser, which asks
// for the stream; a library, which sends the request again; and curl.
func TestEventsAreResumed(t *testing.T) {
	syscall, steps, _ := stepping("Test.Watch", message.KindQuery)
	s := open(t, siteOptions{syscalls: []kernel.Syscall{syscall}})
	f := s.follow(t, "POST", "/v1/call/test/watch", "")
	stream := f.header.Get("Kernos-Stream")
	f.leave() // before anything came
	f = s.follow(t, "GET", "/v1/streams/"+stream, "", "Last-Event-ID", stream+":0")
	steps <- "1"
	steps <- "2"
	f.expect("data 1", "data 2")
	f.leave()
	steps <- "3"
	steps <- "4"

	f = s.follow(t, "GET", "/v1/streams/"+stream+"?after=0", "", "Last-Event-ID", f.last)
	f.expect("data 3", "data 4")
	steps <- "5"
	f.expect("data 5")
	last := f.last
	before := f

	// It has not left when it comes back: as far as it knows, it was cut off.
	f = s.follow(t, "POST", "/v1/call/test/watch", "", "Last-Event-ID", last)
	before.expect("")
	steps <- "6"
	f.expect("data 6")
	f.leave()

	f = s.follow(t, "GET", "/v1/streams/"+stream+"?after=4", "")
	f.expect("data 5", "data 6")
	f.leave()
	f = s.follow(t, "POST", "/v1/call/service/resume", `["`+stream+`",5]`)
	close(steps)
	f.expect("data 6", "data 7", "done 8", "")
	if f.header.Get("Kernos-Stream") != stream {
		t.Errorf("it is the stream %s", f.header.Get("Kernos-Stream"))
	}

	// What is done is kept, too. With 204 a browser stops asking.
	f = s.follow(t, "GET", "/v1/streams/"+stream, "", "Last-Event-ID", stream+":7")
	f.expect("done 8", "")
	for _, a := range []answer{
		s.do("GET", "/v1/streams/"+stream, "", "Last-Event-ID", f.last),
		s.do("POST", "/v1/call/test/watch", "", "Last-Event-ID", f.last),
		s.do("GET", "/v1/streams/"+stream+"?after=8", ""),
	} {
		if a.status != 204 || a.body != "" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestResumingSaysWhyNot(t *testing.T) {
	syscall, steps, _ := stepping("Test.Watch", message.KindQuery)
	s := open(t, siteOptions{Options: Options{}, syscalls: []kernel.Syscall{syscall}})
	f := s.follow(t, "POST", "/v1/call/test/watch", "")
	stream := f.header.Get("Kernos-Stream")
	for _, c := range []struct {
		method, path, body, last string
		status                   int
		name                     string
	}{
		{"GET", "/v1/streams/x-1", "", "", 410, "stream_not_kept"},
		{"GET", "/v1/streams/nonsense", "", "nonsense:0", 410, "stream_not_kept"},
		{"GET", "/v1/streams/" + stream + "7", "", "", 410, "stream_not_kept"},
		{"GET", "/v1/streams/" + stream, "", "x-1:0", 422, "bad_event_id"},
		{"GET", "/v1/streams/" + stream, "", stream, 422, "bad_event_id"},
		{"GET", "/v1/streams/" + stream, "", stream + ":x", 422, "bad_event_id"},
		{"GET", "/v1/streams/" + stream, "", stream + ":99", 422, "bad_event_id"},
		{"GET", "/v1/streams/" + stream, "", stream + ":-1", 422, "bad_event_id"},
		{"GET", "/v1/streams/" + stream + "?after=x", "", "", 422, "bad_after"},
		{"GET", "/v1/streams/" + stream + "?after=", "", "", 422, "bad_after"},
		{"GET", "/v1/streams/" + stream + "?after=99", "", "", 422, "bad_event_id"},
		{"POST", "/v1/call/test/watch", "", "x-1:0", 410, "stream_not_kept"},
		{"POST", "/v1/call/test/watch", "", "nonsense", 422, "bad_event_id"},
		{"POST", "/v1/call/kernel/ping", `{"payload":1}`, stream + ":0", 422, "bad_event_id"},
		{"POST", "/v1/call/test/watch", "{", stream + ":0", 400, "body_not_json"},
		{"POST", "/v1/call/service/resume", `["` + stream + `"]`, "", 422, "invalid_params"},
		{"POST", "/v1/call/service/resume", ``, "", 422, "invalid_params"},
		{"POST", "/v1/call/service/resume", `["x-1",0]`, "", 410, "stream_not_kept"},
		{"DELETE", "/v1/streams/x-1", "", "", 410, "stream_not_kept"},
	} {
		a := s.do(c.method, c.path, c.body, "Accept", "text/event-stream", "Last-Event-ID", c.last)
		if a.status != c.status || a.name() != c.name {
			t.Errorf("%s %s, %q: %d %s", c.method, c.path, c.last, a.status, a.body)
		}
	}
	steps <- "1" // no other client has taken it away
	f.expect("data 1")
	close(steps)
	f.expect("data 2", "done 3", "")
}

// No client comes back in time: a query is cancelled.
func TestEventsAreNotKeptForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		syscall, steps, cancelled := stepping("Test.Watch", message.KindQuery)
		s := open(t, siteOptions{memory: true, syscalls: []kernel.Syscall{syscall}})
		f := s.follow(t, "POST", "/v1/call/test/watch", "")
		stream := f.header.Get("Kernos-Stream")
		steps <- "1"
		f.expect("data 1")
		f.leave()
		time.Sleep(rpc.DefaultKeepFor - time.Second)
		synctest.Wait()
		if len(cancelled) > 0 {
			t.Error("it was cancelled early")
		}
		time.Sleep(2 * time.Second)
		<-cancelled
		if a := s.do("GET", "/v1/streams/"+stream, ""); a.status != 410 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// A peer that does not read does not hold up the call for ever, and may come back.
func TestEventsThatAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		syscall, steps, _ := stepping("Test.Watch", message.KindQuery)
		s := open(t, siteOptions{memory: true, Options: Options{WriteTime: time.Second}, syscalls: []kernel.Syscall{syscall}})
		f := s.follow(t, "POST", "/v1/call/test/watch", "")
		stream := f.header.Get("Kernos-Stream")
		steps <- "1"
		f.expect("data 1")
		synctest.Wait() // only the call has something to do with the stream
		large, began := `"`+strings.Repeat("x", 100_000)+`"`, time.Now()
		for range 3 {
			steps <- large
		}
		if time.Since(began) != time.Second {
			t.Errorf("the call was held up for %v", time.Since(began))
		}
		f = s.follow(t, "GET", "/v1/streams/"+stream, "", "Last-Event-ID", f.last)
		f.expect("data 2", "data 3", "data 4")
		close(steps)
		f.expect("data 5", "done 6", "")
	})
}

func FuzzEventID(f *testing.F) {
	for _, seed := range []string{"", ":", "x-1:0", "a:b:9", "x-1:99999999999999999999", "x-1:-1", "\xff:1"} {
		f.Add(seed)
	}
	s := open(f, siteOptions{})
	f.Fuzz(func(t *testing.T, text string) {
		id, after, ok := parseEventID(text)
		if ok && !strings.HasPrefix(text, id+":") {
			t.Errorf("%q is of %q", text, id)
		}
		if sub, err := s.opts.RPC.Resume(t.Context(), id, after, ""); err == nil {
			t.Errorf("%q resumes %s", text, sub.ID())
		}
	})
}
