package ws_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kernos/transport/ws"
)

// The cases of the fuzzing client of Autobahn's test suite, under its numbers, written anew
// from RFC 6455. The suite wants a server that echoes; ours answers calls. So where the suite
// sends a text, these send a call with that text, and the answer must hold it; a text that is no
// call is answered with an error of JSON-RPC, which shows that it has come. The suite's clock is
// replaced by pings: a server that answers one has nothing to say to what came before it.

// verdict is what the suite calls an outcome.
type verdict string

const (
	passes        verdict = "OK"
	nonStrict     verdict = "NON-STRICT"    // conforms, and could do better by the suite's lights
	informational verdict = "INFORMATIONAL" // the RFC leaves it open
	unimplemented verdict = "UNIMPLEMENTED" // an extension that is not negotiated
	textOnly      verdict = "text only"     // the suite wants an echo of binary messages too; they are refused with 1003 here, as RFC 6455 provides for
)

// exchange is one case.
type exchange struct {
	id      string
	verdict verdict
	offer   string   // of extensions
	steps   []any    // what is sent, a frame or bytes; or what must come before more is sent, a string
	chop    int      // bytes that are sent at a time; 0 is everything at once
	comes   []string // what comes in the end, before the connection is closed
	code    int      // with which the server closes; 0 is 1000, after we have
}

// stepWise sends each frame by itself.
const stepWise = -1

// sizes are how many cases the suite has, by the beginning of their numbers, without those that
// need compression.
var sizes = map[string]int{
	"1.1": 8, "1.2": 8, "2": 11, "3": 7, "4.1": 5, "4.2": 5, "5": 20,
	"6.1": 3, "6.2": 4, "6.3": 2, "6.4": 4, "6.5": 5, "6.6": 11, "6.7": 4, "6.8": 2, "6.9": 4, "6.10": 3, "6.11": 5, "6.12": 8,
	"6.13": 5, "6.14": 10, "6.15": 1, "6.16": 3, "6.17": 5, "6.18": 5, "6.19": 5, "6.20": 7, "6.21": 8, "6.22": 34, "6.23": 7,
	"7.1": 6, "7.3": 6, "7.5": 1, "7.7": 13, "7.9": 9, "7.13": 2,
	"9.1": 6, "9.2": 6, "9.3": 9, "9.4": 9, "9.5": 6, "9.6": 6, "9.7": 6, "9.8": 6, "10.1": 1,
}

// maxMessage is the largest message of the cases.
const maxMessage = 4 << 20

func TestAutobahn(t *testing.T) {
	s := serve(t, &ws.Options{MaxMessage: maxMessage})
	cases := slices.Concat(framingCases(), utf8Cases(), closeCases(), limitCases())
	missing := make(map[string]bool)
	for group, n := range sizes {
		for i := range n {
			missing[fmt.Sprint(group, ".", i+1)] = true
		}
	}
	for _, c := range slices.Concat(cases, compressionCases()) {
		t.Run(c.id+" "+string(c.verdict), func(t *testing.T) { c.hold(t, s) })
	}
	for _, c := range cases {
		if !missing[c.id] {
			t.Errorf("there is no case %s, or there are two", c.id)
		}
		delete(missing, c.id)
	}
	for id := range missing {
		t.Errorf("case %s is missing", id)
	}
}

// hold holds the exchange.
func (c *exchange) hold(t *testing.T, s *server) {
	t.Helper()
	p, answer := connect(t, s, c.offer)
	if got := answer.Get("Sec-WebSocket-Extensions"); got != "" {
		t.Errorf("the server agrees to %s", got)
	}
	var waiting []byte // to be sent
	flush := func() {
		p.send(waiting, max(c.chop, 0))
		waiting = nil
	}
	expect := func(want string) {
		t.Helper()
		if got := p.event(); got != want {
			t.Fatalf("got %s, want %s", excerpt(got), excerpt(want))
		}
	}
	closed := false // by us
	for _, step := range c.steps {
		switch step := step.(type) {
		case frame:
			waiting = append(waiting, step.bytes()...)
			closed = closed || step.op == opClose
		case []byte:
			waiting = append(waiting, step...)
		case string:
			flush()
			expect(step)
		}
		if c.chop == stepWise {
			flush()
		}
	}
	flush()
	for _, want := range c.comes {
		expect(want)
	}
	if c.code == 0 && !closed {
		p.send(goodbye(1000).bytes(), 0)
	}
	expect(fmt.Sprint("close ", cmp.Or(c.code, 1000)))
	expect("end")
}

const hello = "Hello, world!"

func text(data string) frame   { return frame{op: opText, data: data} }
func ping(data string) frame   { return frame{op: opPing, data: data} }
func pong(data string) frame   { return frame{op: opPong, data: data} }
func binaryOf(n int) frame     { return frame{op: opBinary, data: strings.Repeat("\xfe", n)} }
func goodbye(code int) frame   { return frame{op: opClose, data: reasoned(code, "")} }
func echoOf(s string) []string { return []string{"echo " + s} }

func reasoned(code int, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(code))) + reason
}

// call is a call that echoes a text.
func call(text string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"test_echo","params":[{"text":"` + text + `"}]}`
}

// filling is a text whose call has a number of bytes.
func filling(n int) string { return strings.Repeat("*", n-len(call(""))) }

// fragmented is a message in fragments of some bytes.
func fragmented(op byte, message string, size int) []any {
	var frames []any
	for len(message) > size {
		frames = append(frames, frame{op: op, data: message[:size], more: true})
		op, message = opContinuation, message[size:]
	}
	return append(frames, frame{op: op, data: message})
}

// halves is a message in two fragments, with something between them.
func halves(message string, between ...any) []any {
	parts := fragmented(opText, message, (len(message)+1)/2)
	return slices.Insert(parts, 1, between...)
}
