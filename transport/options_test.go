package transport

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"kernos/message"
)

// What has begun is answered; half a line is not taken for a line.
func TestStreamThatIsStoppedEndsInAnOrderlyWay(t *testing.T) {
	var out strings.Builder
	in := io.MultiReader(strings.NewReader(ping("1")+`{"kind":"query",`), iotest.ErrReader(ErrStopped))
	if _, err := Serve(t.Context(), newKernel(t, nil), in, &out, nil); err != nil {
		t.Errorf("got %v", err)
	}
	if got := briefs(t, lines(t, out.String())); got != `1 {"payload":"1"}` {
		t.Errorf("got %s", got)
	}
}

func TestStreamPacesEveryLine(t *testing.T) {
	paced := 0
	long := strings.Repeat("x", 20_000) + "\n"
	out, _ := talk(t, newKernel(t, nil), strings.NewReader(ping("1")+"\nnonsense\n"+long+ping("2")), &Options{Pace: func() { paced++ }})
	if paced != 4 || len(out) != 4 {
		t.Errorf("%d lines are paced, and %d answered", paced, len(out))
	}
}

// Requests and lines that are refused open; answers close.
func TestStreamCountsWhatIsNotAnswered(t *testing.T) {
	var open atomic.Int64
	var seen []int64
	in := ping("1") + "nonsense\n" + ask("2", "No.Body", `1`) + askOlder("3", "Ping", `{"payload":1}`) +
		`{"kind":"event","type":"Test.Happened","data":1,"metadata":{"id":"4","timestamp":1}}` + "\n" +
		`{"kind":"event","type":"Kernel.Forged","data":1,"metadata":{"id":"4","timestamp":1}}` + "\n" + ping("5")
	talk(t, newKernel(t, nil), strings.NewReader(in), &Options{Open: &open, Pace: func() { seen = append(seen, open.Load()) }})
	if open.Load() != 0 || len(seen) != 7 {
		t.Errorf("%d are open at the end", open.Load())
	}
	for i, n := range seen {
		if n != 0 {
			t.Errorf("%d are open before line %d", n, i+1)
		}
	}
}

// A notice is an event between the answers, in the dialect that the peer speaks.
func TestStreamTellsWhatThePeerIsToKnow(t *testing.T) {
	notices := []*message.Message{nil, {Kind: message.KindEvent, Type: "Test.Told", Data: []byte(`1`)}, nil, {Kind: message.KindEvent, Type: "Test.Told", Data: []byte(`2`)}}
	next := func() *message.Message {
		n := notices[0]
		notices = notices[1:]
		return n
	}
	out, _ := talk(t, newKernel(t, nil), strings.NewReader(ping("1")+ping("2")+ping("3")+askOlder("4", "Ping", `{"payload":1}`)), &Options{Notice: next})
	if len(out) != 6 || !strings.HasPrefix(out[1], `{"kind":"event","type":"Test.Told","data":1,"metadata":{"id":"`) || !strings.Contains(out[4], `"name":"Test.Told","payload":2`) {
		t.Errorf("got %s", strings.Join(out, "\n"))
	}
}
