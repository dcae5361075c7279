package ws_test

import (
	"fmt"
	"slices"
	"strings"
)

// framingCases are the cases 1 to 5: lengths, control frames, reserved bits and opcodes, fragments.
func framingCases() (all []exchange) {
	add := func(e exchange) { all = append(all, e) }

	// 1: lengths in all their encodings.
	for i, n := range []int{0, 125, 126, 127, 128, 65535, 65536, 65536} {
		e := exchange{id: fmt.Sprint("1.1.", i+1), verdict: passes, steps: []any{text("")}, comes: []string{"error -32700"}}
		if n > 0 {
			e.steps, e.comes = []any{text(call(filling(n)))}, echoOf(filling(n))
		}
		b := exchange{id: fmt.Sprint("1.2.", i+1), verdict: textOnly, steps: []any{binaryOf(n)}, code: 1003}
		if i == 7 {
			e.chop, b.chop = 997, 997
		}
		add(e)
		add(b)
	}

	// 2: pings and pongs.
	var pings []any
	var pongs []string
	for i := range 10 {
		pings = append(pings, ping(fmt.Sprint("payload-", i)))
		pongs = append(pongs, fmt.Sprint("pong payload-", i))
	}
	full := strings.Repeat("\xfe", 125)
	add(exchange{id: "2.1", verdict: passes, steps: []any{ping("")}, comes: []string{"pong "}})
	add(exchange{id: "2.2", verdict: passes, steps: []any{ping(hello)}, comes: []string{"pong " + hello}})
	add(exchange{id: "2.3", verdict: passes, steps: []any{ping("\x00\xff\xfe\xfd\xfc\xfb\x00\xff")}, comes: []string{"pong \x00\xff\xfe\xfd\xfc\xfb\x00\xff"}})
	add(exchange{id: "2.4", verdict: passes, steps: []any{ping(full)}, comes: []string{"pong " + full}})
	add(exchange{id: "2.5", verdict: passes, steps: []any{ping(full + "\xfe")}, code: 1002})
	add(exchange{id: "2.6", verdict: passes, steps: []any{ping(full)}, chop: 1, comes: []string{"pong " + full}})
	add(exchange{id: "2.7", verdict: passes, steps: []any{pong("")}})
	add(exchange{id: "2.8", verdict: passes, steps: []any{pong("unsolicited")}})
	add(exchange{id: "2.9", verdict: passes, steps: []any{pong("unsolicited"), ping("asked")}, comes: []string{"pong asked"}})
	add(exchange{id: "2.10", verdict: passes, steps: pings, comes: pongs})
	add(exchange{id: "2.11", verdict: passes, steps: pings, chop: 1, comes: pongs})

	// 3: reserved bits, of which none has a meaning here.
	reserved := func(rsv byte) frame { return frame{op: opText, data: call(hello), rsv: rsv} }
	add(exchange{id: "3.1", verdict: passes, steps: []any{reserved(1)}, code: 1002})
	add(exchange{id: "3.2", verdict: passes, steps: []any{text(call(hello)), reserved(2), ping("")}, comes: echoOf(hello), code: 1002})
	add(exchange{id: "3.3", verdict: passes, steps: []any{text(call(hello)), reserved(3), ping("")}, chop: stepWise, comes: echoOf(hello), code: 1002})
	add(exchange{id: "3.4", verdict: passes, steps: []any{text(call(hello)), reserved(4), ping("")}, chop: 1, comes: echoOf(hello), code: 1002})
	add(exchange{id: "3.5", verdict: passes, steps: []any{frame{op: opBinary, data: "\x00\xff\xfe", rsv: 5}}, code: 1002})
	add(exchange{id: "3.6", verdict: passes, steps: []any{frame{op: opPing, data: hello, rsv: 6}}, code: 1002})
	add(exchange{id: "3.7", verdict: passes, steps: []any{frame{op: opClose, rsv: 7}}, code: 1002})

	// 4: reserved opcodes, of data and of control frames.
	for i, first := range []byte{3, 11} {
		unknown := func(n int, data string) frame { return frame{op: first + byte(n), data: data} }
		id := fmt.Sprintf("4.%d.", i+1)
		add(exchange{id: id + "1", verdict: passes, steps: []any{unknown(0, "")}, code: 1002})
		add(exchange{id: id + "2", verdict: passes, steps: []any{unknown(1, "reserved")}, code: 1002})
		add(exchange{id: id + "3", verdict: passes, steps: []any{text(call(hello)), unknown(2, ""), ping("")}, comes: echoOf(hello), code: 1002})
		add(exchange{id: id + "4", verdict: passes, steps: []any{text(call(hello)), unknown(3, hello), ping("")}, comes: echoOf(hello), code: 1002})
		add(exchange{id: id + "5", verdict: passes, steps: []any{text(call(hello)), unknown(4, hello), ping("")}, chop: 1, comes: echoOf(hello), code: 1002})
	}

	// 5: fragments.
	const parts = "fragment1fragment2"
	lone := func(more bool) frame { return frame{op: opContinuation, data: "continues nothing", more: more} }
	add(exchange{id: "5.1", verdict: passes, steps: []any{frame{op: opPing, data: "fragment1", more: true}, frame{op: opContinuation, data: "fragment2"}}, code: 1002})
	add(exchange{id: "5.2", verdict: passes, steps: []any{frame{op: opPong, data: "fragment1", more: true}, frame{op: opContinuation, data: "fragment2"}}, code: 1002})
	for i, chop := range []int{0, stepWise, 1} {
		add(exchange{id: fmt.Sprint("5.", 3+i), verdict: passes, steps: halves(call(parts)), chop: chop, comes: echoOf(parts)})
		add(exchange{id: fmt.Sprint("5.", 6+i), verdict: passes, steps: halves(call(parts), ping("between")), chop: chop, comes: []string{"pong between", "echo " + parts}})
		add(exchange{id: fmt.Sprint("5.", 9+i), verdict: passes, steps: []any{lone(false), text(call(hello))}, chop: chop, code: 1002})
		add(exchange{id: fmt.Sprint("5.", 12+i), verdict: passes, steps: []any{lone(true), text(call(hello))}, chop: chop, code: 1002})
	}
	add(exchange{id: "5.15", verdict: passes, steps: append(halves(call(parts)), lone(true), text(call(hello))), comes: echoOf(parts), code: 1002})
	for i, more := range []bool{true, false} {
		once := append([]any{lone(more)}, halves(call(parts))...)
		add(exchange{id: fmt.Sprint("5.", 16+i), verdict: passes, steps: append(once, once...), code: 1002})
	}
	add(exchange{id: "5.18", verdict: passes, steps: []any{frame{op: opText, data: "fragment1", more: true}, text("fragment2")}, code: 1002})
	for i, chop := range []int{0, stepWise} {
		five := fragmented(opText, call(parts), (len(call(parts))+4)/5)
		add(exchange{id: fmt.Sprint("5.", 19+i), verdict: passes, chop: chop, comes: []string{"pong second", "echo " + parts},
			steps: slices.Concat(five[:2], []any{ping("first"), "pong first"}, five[2:4], []any{ping("second")}, five[4:])})
	}
	return all
}
