package transport_test

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel/kerneltest"
	"kernos/transport"
)

// What has begun is answered; half a line is not taken for a line.
func TestStreamThatIsStoppedEndsInAnOrderlyWay(t *testing.T) {
	var out strings.Builder
	in := io.MultiReader(strings.NewReader(ping("1")+`{"kind":"query",`), iotest.ErrReader(transport.ErrStopped))
	if _, err := transport.Serve(t.Context(), kerneltest.Around(t, nil, introspect.Module), in, &out, nil); err != nil {
		t.Errorf("got %v", err)
	}
	if got := testkit.Briefs(t, lines(t, out.String())); got != `1 {"payload":"1"}` {
		t.Errorf("got %s", got)
	}
}

func TestStreamPacesEveryLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		long := strings.Repeat("x", 20_000) + "\n"
		in := strings.NewReader(ping("1") + "\nnonsense\n" + long + ping("2"))
		out, _ := talk(t, kerneltest.Around(t, nil, introspect.Module), in, &transport.Options{Pacer: newServer(t, transport.Limits{FrameRate: 1}).Pacer()})
		if took := time.Since(begun); took != 3*time.Second || len(out) != 5 {
			t.Errorf("%d lines came after %v, want the answers and that the peer is throttled", len(out), took)
		}
	})
}

// byLine is a reader that returns one line at a time.
type byLine struct {
	lines  []string
	before func() // called before each of them
}

func (r *byLine) Read(p []byte) (int, error) {
	r.before()
	if len(r.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.lines[0])
	r.lines = r.lines[1:]
	return n, nil
}

// Requests and lines that are refused open; answers close.
func TestStreamCountsWhatIsNotAnswered(t *testing.T) {
	var open atomic.Int64
	var seen []int64
	in := &byLine{before: func() { seen = append(seen, open.Load()) }, lines: strings.SplitAfter(ping("1")+"nonsense\n"+ask("2", "No.Body", `1`)+askOlder("3", "Ping", `{"payload":1}`)+
		`{"kind":"event","type":"Test.Happened","data":1,"metadata":{"id":"4","timestamp":1}}`+"\n"+
		`{"kind":"event","type":"Kernel.Forged","data":1,"metadata":{"id":"4","timestamp":1}}`+"\n"+ping("5"), "\n")}
	talk(t, kerneltest.Around(t, nil, introspect.Module), in, &transport.Options{Open: &open})
	if open.Load() != 0 || len(seen) < 8 {
		t.Errorf("%d are open at the end", open.Load())
	}
	for i, n := range seen {
		if n != 0 {
			t.Errorf("%d are open before line %d", n, i+1)
		}
	}
}

// A peer that exceeds the frame rate is told so between the answers, in the dialect that it
// speaks.
func TestStreamTellsAPeerThatItIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := strings.NewReader(strings.Repeat(ping("1"), 61) + askOlder("2", "Ping", `{"payload":1}`))
		out, _ := talk(t, kerneltest.Around(t, nil, introspect.Module), in, &transport.Options{Pacer: newServer(t, transport.Limits{FrameRate: 1}).Pacer()})
		if len(out) != 64 || !strings.HasPrefix(out[1], `{"kind":"event","type":"Syscall.Throttled","data":{"code":429,`) || !strings.Contains(out[62], `"name":"Syscall.Throttled","payload":{`) {
			t.Errorf("got %s", strings.Join(out, "\n"))
		}
	})
}
