package register_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/storetest"
)

// work answers every request with the name of the program, until the connection ends. It
// reads while it writes: a pipe holds nothing.
func (p *program) work(name string) (done <-chan struct{}) {
	ended := make(chan struct{})
	answers := make(chan string, 1000)
	var writer sync.WaitGroup
	writer.Go(func() {
		for a := range answers {
			_, _ = fmt.Fprintln(p.conn, a) // an error ends reading, too
		}
	})
	go func() {
		defer close(ended)
		defer writer.Wait()
		defer close(answers)
		var d message.Decoder
		for {
			text, err := p.lines.ReadBytes('\n')
			if err != nil {
				return
			}
			if m, rejection := d.Decode(text); rejection == nil && m.Kind.Asks() {
				answers <- answering(m, "reply", string(m.Type), fmt.Sprintf("%q", name))
			}
		}
	}()
	return ended
}

// A syscall that can be found can be called: a call that comes while a program registers it is answered.
func TestWhatIsFoundIsServed(t *testing.T) {
	k := withModule(t, nil, nil)
	p, caller := connect(t, k), connect(t, k)
	done := p.work("served")
	for i := range 200 {
		name := fmt.Sprintf("Text.T%d", i)
		p.send(strings.Replace(registration(name, ""), `"id":"register"`, fmt.Sprintf(`"id":"register-%d"`, i), 1))
		for found := false; !found; {
			got := caller.call(line("query", name, "call", `1`))
			if found = !strings.Contains(got, "404"); found && got != `reply "served"` {
				t.Fatalf("%s: %s", name, got)
			}
		}
	}
	p.close()
	<-done
}

// Each request goes to the connection with the fewest to answer, in turn among equals.
func TestLoadIsSpread(t *testing.T) {
	k := withModule(t, nil, nil)
	caller := connect(t, k)
	var programs []*program
	for range 3 {
		p := connect(t, k)
		p.register("Text.Count")
		programs = append(programs, p)
	}
	// Three at once are one each.
	for i := range programs {
		caller.send(line("query", "Text.Count", fmt.Sprint("q", i), `1`))
	}
	var requests []message.Message
	for _, p := range programs {
		requests = append(requests, p.next())
	}
	// The one that is free gets the next, again and again.
	for i := range 5 {
		programs[1].send(answering(requests[1], "reply", "Text.Count", fmt.Sprint(i)))
		if got := brief(t, caller.next()); got != fmt.Sprint("reply ", i) {
			t.Error(got)
		}
		caller.send(line("query", "Text.Count", "next", `1`))
		requests[1] = programs[1].next()
	}
	for i, p := range programs {
		p.send(answering(requests[i], "reply", "Text.Count", `0`))
		caller.next()
	}
	// Those who go away take what they have with them, and nothing else.
	counts := make(map[string]int)
	programs[0].close()
	done := []<-chan struct{}{programs[1].work("one"), programs[2].work("two")}
	for range 20 {
		counts[caller.call(line("query", "Text.Count", "q", `1`))]++
	}
	if counts[`reply "one"`] != 10 || counts[`reply "two"`] != 10 {
		t.Errorf("got %v", counts)
	}
	for i, d := range done {
		programs[i+1].close()
		<-d
	}
}

func TestAnAnswerThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := withModule(t, nil, nil)
		caller, p := connect(t, k), connect(t, k)
		if got := p.call(registration("Text.Count", `,"timeout":1500`)); !strings.HasPrefix(got, "reply") {
			t.Fatal(got)
		}
		start := time.Now()
		caller.send(line("query", "Text.Count", "q", `1`))
		request := p.next()
		told := make(chan string, 1)
		go func() { told <- brief(t, p.next()) }()
		if got := brief(t, caller.next()); !strings.HasPrefix(got, "error 504 Text.Count was not ") {
			t.Error(got)
		}
		if d := time.Since(start); d < 1500*time.Millisecond || d > 1600*time.Millisecond {
			t.Errorf("after %v", d)
		}
		if got := <-told; got != fmt.Sprintf(`event Syscall.Cancelled {"id":%q}`, request.Metadata.ID) {
			t.Errorf("the program was told %s", got)
		}
		// What it says now is dropped, and the connection goes on.
		p.send(answering(request, "event", "Text.Counted", `1`), answering(request, "reply", "Text.Count", `1`))
		caller.send(line("query", "Text.Count", "again", `2`))
		p.send(answering(p.next(), "reply", "Text.Count", `2`))
		if m := caller.next(); brief(t, m) != "reply 2" || m.Metadata.Causation != "again" {
			t.Errorf("got %s", message.Append(nil, &m))
		}
	})
}

// A connection whose answers make no sense three times in a row is passed over for a while,
// as long as others serve the type.
func TestAConnectionThatFailsRests(t *testing.T) {
	for name, answer := range map[string]func(message.Message) string{
		"an event with a reserved name":  func(m message.Message) string { return answering(m, "event", "Sys.Nonsense", `1`) },
		"an event of a built-in syscall": func(m message.Message) string { return answering(m, "event", "Test.Happened", `1`) },
		"no valid message": func(m message.Message) string {
			return strings.Replace(answering(m, "reply", "Text.Count", `1`), `"timestamp":1735000000000`, `"timestamp":"now"`, 1)
		},
		"a message that is too long": func(m message.Message) string {
			return answering(m, "reply", "Text.Count", `"`+strings.Repeat("x", message.MaxLine)+`"`)
		},
	} {
		t.Run(name, func(t *testing.T) { coolsDown(t, answer) })
	}
}

func coolsDown(t *testing.T, answer func(message.Message) string) {
	synctest.Test(t, func(t *testing.T) {
		k := withModule(t, nil, nil, builtIns()...)
		caller, bad, good := connect(t, k), connect(t, k), connect(t, k)
		bad.register("Text.Count")
		good.register("Text.Count")
		done := good.work("good")
		answers := make(chan struct{})
		go func() {
			defer close(answers)
			var d message.Decoder
			for {
				text, err := bad.lines.ReadBytes('\n')
				if err != nil {
					return
				}
				if m, _ := d.Decode(text); m.Kind.Asks() {
					if _, err := fmt.Fprintln(bad.conn, answer(m)); err != nil {
						return
					}
				}
			}
		}()
		ask := func(n int) (failed int) {
			for range n {
				if got := caller.call(line("query", "Text.Count", "q", `1`)); strings.HasPrefix(got, "error 502") {
					failed++
				} else if got != `reply "good"` {
					t.Error(got)
				}
				synctest.Wait() // a request that was cancelled counts until its goroutine has ended
			}
			return failed
		}
		if n := ask(40); n != 3 {
			t.Errorf("%d failed", n)
		}
		if got := k.Services(); !slices.Equal(got, []kernel.Service{{Type: "Text.Count", Connections: 2, Resting: 1}}) {
			t.Errorf("got %+v", got)
		}
		time.Sleep(21 * time.Second) // the rest takes 20
		if n := ask(40); n != 1 {
			t.Errorf("%d failed after the rest", n)
		}
		good.close()
		<-done
		if n := ask(3); n != 3 { // no other connection serves it
			t.Errorf("%d failed alone", n)
		}
		bad.close()
		<-answers
	})
}

func TestManyCallersAndPrograms(t *testing.T) {
	k := withModule(t, nil, nil)
	var programs []<-chan struct{}
	var ends []*program
	for i := range 4 {
		p := connect(t, k)
		p.register("Text.Count")
		programs, ends = append(programs, p.work(fmt.Sprint(i))), append(ends, p)
	}
	var callers sync.WaitGroup
	for c := range 8 {
		p := connect(t, k)
		callers.Go(func() {
			for i := range 50 {
				id := fmt.Sprintf("c%d-%d", c, i)
				p.send(line("query", "Text.Count", id, `1`))
				m := p.next()
				if m.Kind != message.KindReply && !strings.HasPrefix(brief(t, m), "error 502") || string(m.Metadata.Causation) != id {
					t.Errorf("got %s", message.Append(nil, &m))
				}
				if c == 0 && i == 25 { // in the middle of it all
					ends[3].close()
				}
			}
		})
	}
	callers.Wait()
	for i, done := range programs {
		ends[i].close()
		<-done
	}
	if got := len(k.Registry().All().Types()); got != 8 {
		t.Errorf("%v are left", k.Registry().All().Types())
	}
}

// The journal has what passes without secrets, and who came and went.
func TestWhatIsRecorded(t *testing.T) {
	s := storetest.NewMemory()
	j := journal.New(s, nil)
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	k := withModule(t, &kernel.Options{Recorder: j, Store: s}, nil)
	caller, p := connect(t, k), connect(t, k)
	if got := p.call(line("command", "Syscall.Register", "reg", `{"name":"Account.Login","kind":"command","description":"Log in.","inputSchema":{"type":"object","properties":{"password":{"type":"string","writeOnly":true}}},"outputSchema":{"type":"object","properties":{"token":{"type":"string","writeOnly":true},"n":{"type":"integer"}}},"handler":"connection"}`)); !strings.HasPrefix(got, "reply") {
		t.Fatal(got)
	}
	caller.send(line("command", "Account.Login", "login", `{"password":"hunter2"}`))
	request := p.next()
	if string(request.Data) != `{"password":"hunter2"}` {
		t.Errorf("the program got %s", request.Data)
	}
	p.send(answering(request, "reply", "Account.Login", `{"token":"hunter3"}`))
	if got := brief(t, caller.next()); got != `reply {"token":"hunter3"}` {
		t.Error(got)
	}
	caller.send(line("command", "Account.Login", "login2", `{"password":"hunter4"}`))
	p.send(answering(p.next(), "reply", "Account.Login", `{"token":"hunter5","n":"hunter6"}`))
	if got := brief(t, caller.next()); got != `error 502 The program that serves Account.Login sent a reply that its outputSchema does not allow: n: expected a whole number, got a string` {
		t.Error(got)
	}
	p.close()
	entries, _, err := j.List(t.Context(), journal.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		m := &e.Message
		if strings.Contains(string(m.Data), "hunter") {
			t.Errorf("recorded: %s", message.Append(nil, m))
		}
		if m.Kind == message.KindEvent || m.Type == "Account.Login" && m.Metadata.Correlation == "login" || m.Metadata.ID == "login" {
			all = append(all, fmt.Sprintf("%s %s %s by %s", m.Kind, m.Type, m.Data, strings.Replace(string(m.Metadata.Causation), string(request.Metadata.ID), "request", 1)))
		}
	}
	want := []string{
		`event Syscall.Registered {"name":"Account.Login","connections":1} by reg`,
		`command Account.Login {"password":"[redacted]"} by `,
		`command Account.Login {"password":"[redacted]"} by login`,
		`reply Account.Login {"token":"[redacted]"} by request`,
		`event Syscall.Unregistered {"name":"Account.Login","connections":0} by reg`,
	}
	if strings.Join(all, "\n") != strings.Join(want, "\n") {
		t.Errorf("recorded:\n%s", strings.Join(all, "\n"))
	}
}

func FuzzRegister(f *testing.F) {
	f.Add([]byte(`{"name":"Text.Count","kind":"query","description":"Count.","inputSchema":{},"outputSchema":true,"handler":"connection"}`))
	f.Add([]byte(`{"name":"A.B","kind":"command","description":"x","inputSchema":{"properties":{"a":{"type":"string","writeOnly":true}}},"outputSchema":{"$ref":"#"},"handler":"connection","emits":[{"type":"A.C"}],"timeout":1e2}`))
	f.Add([]byte(`{"name":"A.B","kind":"query","code":"x","inputSchema":{"type":7},"outputSchema":{}}`))
	f.Add([]byte(`{"name":"Sys.B","kind":"query","inputSchema":{"enum":[12345678901234567890,1.0,1e400]},"outputSchema":{},"handler":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		k := withModule(t, nil, nil)
		p := connect(t, k)
		defer p.close()
		m := message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: data, Metadata: message.Metadata{ID: "r", Timestamp: 1}}
		if m.Validate() != nil || len(data) > 8000 || strings.ContainsAny(string(data), "\n\r") {
			return // it would be no line, or several
		}
		hash := k.Registry().All().Hash()
		p.send(string(message.Append(nil, &m)))
		outcome := p.next()
		if outcome.Kind == message.KindError {
			if e, err := message.ParseError(outcome.Data); err != nil || e.Code >= 500 && e.Code != 501 {
				t.Errorf("%s: %s", data, outcome.Data)
			}
			if k.Registry().All().Hash() != hash {
				t.Errorf("%s was refused and is there", data)
			}
			return
		}
		var reply struct{ Name message.Type }
		if err := json.Unmarshal(outcome.Data, &reply); err != nil || kernel.Reserved(reply.Name) {
			t.Errorf("%s: %s", data, outcome.Data)
		}
		s, ok := k.Registry().Lookup(reply.Name)
		if !ok {
			t.Fatalf("%s is not there", reply.Name)
		}
		// A second one with the same definition agrees with it.
		other := connect(t, k)
		defer other.close()
		other.send(string(message.Append(nil, &m)))
		if got := other.next(); got.Kind != message.KindReply {
			t.Errorf("%s: a second one: %s", data, got.Data)
		}
		_ = s.Input.Validate(json.RawMessage(`{"a":1}`))
		_ = s.Output.Validate(json.RawMessage(`[1,"x"]`))
	})
}

func TestAnAnswerThatIsNoMessage(t *testing.T) {
	k := withModule(t, nil, nil)
	p, c := connect(t, k), connect(t, k)
	p.register("Test.Ask")
	c.send(line("query", "Test.Ask", "q", `1`))
	p.send(answering(p.next(), "error", "Test.Ask", `{"nonsense":1}`))
	told := make(chan string, 1)
	go func() { told <- brief(t, p.next()) }() // a pipe holds nothing: a peer that does not read holds up the writer
	if got := brief(t, c.next()); !strings.HasPrefix(got, "error 502 ") {
		t.Error(got)
	}
	if got := <-told; !strings.HasPrefix(got, "error 422 ") {
		t.Error(got)
	}
}

// A program with one thread may answer before it has read what else there is for it.
func TestAProgramThatWritesBeforeItReads(t *testing.T) {
	k := withModule(t, nil, nil)
	here, there := net.Pipe() // without a buffer
	p, c := connectOver(t, k, here, there), connect(t, k)
	p.register("Test.Ask")
	c.send(line("query", "Test.Ask", "q", `1`))
	request := p.next()
	if err := here.SetWriteDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	p.send(line("query", "Ping", "ping", `{"payload":1}`), answering(request, "reply", "Test.Ask", `2`), line("query", "Ping", "ping", `{"payload":2}`))
	if got := brief(t, c.next()); got != "reply 2" {
		t.Error(got)
	}
	for _, want := range []string{`reply {"payload":1}`, `reply {"payload":2}`} {
		if got := brief(t, p.next()); got != want {
			t.Error(got)
		}
	}
}

// A program that calls what it serves must be read while it waits.
func TestAProgramThatCallsItself(t *testing.T) {
	k := withModule(t, &kernel.Options{InFlight: 2}, nil)
	p := connect(t, k)
	p.register("Test.Ask")
	var requests []message.Message
	for _, id := range []string{"1", "2"} {
		p.send(line("query", "Test.Ask", id, `1`))
		requests = append(requests, p.next())
	}
	p.send(line("query", "Test.Ask", "3", `1`)) // it waits for one of those
	p.send(answering(requests[0], "reply", "Test.Ask", `1`))
	got := []string{brief(t, p.next()), brief(t, p.next())} // the answer, and the request that has its place
	slices.Sort(got)
	if !slices.Equal(got, []string{"query Test.Ask 1", "reply 1"}) {
		t.Errorf("got %q", got)
	}
	if got := p.call(answering(requests[1], "reply", "Test.Ask", `2`)); got != "reply 2" {
		t.Error(got)
	}
}

// builtIns is a syscall with an event.
func builtIns() []kernel.Syscall {
	return []kernel.Syscall{kernel.Query(kernel.Definition{Type: "Test.Built", Summary: "Built in.", Emits: []kernel.EventDefinition{{Type: "Test.Happened", Summary: "It happened."}}},
		func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })}
}

func TestABuiltInEventIsNoName(t *testing.T) {
	p := connect(t, withModule(t, nil, nil, builtIns()...))
	if got := p.call(registration("Test.Happened", "")); !strings.HasPrefix(got, "error 403 ") {
		t.Error(got)
	}
}
