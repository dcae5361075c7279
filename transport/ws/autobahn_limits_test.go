package ws_test

import (
	"fmt"
	"strings"
)

// padded is a call with so much white space that it has a number of bytes. An item of an answer
// has a megabyte at most, so what is larger is not echoed.
func padded(n int) string {
	c := call(hello)
	return c[:len(c)-1] + strings.Repeat(" ", n-len(c)) + "}"
}

// limitCases are the cases 9 and 10: much at once, in large and in small pieces. In 9, messages
// have a quarter of the suite's bytes, and binary ones fewer, since their first is refused.
func limitCases() (all []exchange) {
	add := func(e exchange) { all = append(all, e) }
	const k, m = 1 << 10, 1 << 20

	for i, n := range []int{16 * k, 64 * k, 256 * k, m, 2 * m, maxMessage} {
		e := exchange{id: fmt.Sprint("9.1.", i+1), verdict: passes, steps: []any{text(padded(n))}, comes: echoOf(hello)}
		if n < m {
			e.steps, e.comes = []any{text(call(filling(n)))}, echoOf(filling(n))
		}
		add(e)
		add(exchange{id: fmt.Sprint("9.2.", i+1), verdict: textOnly, steps: []any{binaryOf(n / 16)}, code: 1003})
	}
	for i, size := range []int{64, 256, k, 4 * k, 16 * k, 64 * k, 256 * k, m, 4 * m} {
		add(exchange{id: fmt.Sprint("9.3.", i+1), verdict: passes, steps: fragmented(opText, padded(m), size), comes: echoOf(hello)})
		add(exchange{id: fmt.Sprint("9.4.", i+1), verdict: textOnly, steps: fragmented(opBinary, padded(16*k), size), code: 1003})
	}
	for i, chop := range []int{64, 128, 256, 512, 1024, 2048} {
		add(exchange{id: fmt.Sprint("9.5.", i+1), verdict: passes, steps: []any{text(padded(m / 4))}, chop: chop, comes: echoOf(hello)})
		add(exchange{id: fmt.Sprint("9.6.", i+1), verdict: textOnly, steps: []any{binaryOf(16 * k)}, chop: chop, code: 1003})
	}
	// One after the other, each when that before it was answered: 100, not 1,000.
	for i, n := range []int{0, 16, 64, 256, 1024, 4096} {
		message, answer := "", "error -32700"
		switch {
		case n > len(call("")):
			message, answer = call(filling(n)), "echo "+filling(n)
		case n > 0: // too short for a call
			message, answer = `"`+strings.Repeat("*", n-2)+`"`, "error -32600"
		}
		e := exchange{id: fmt.Sprint("9.7.", i+1), verdict: passes}
		for range 100 {
			e.steps = append(e.steps, text(message), answer)
		}
		add(e)
		add(exchange{id: fmt.Sprint("9.8.", i+1), verdict: textOnly, steps: []any{binaryOf(n)}, code: 1003})
	}
	add(exchange{id: "10.1.1", verdict: passes, steps: fragmented(opText, call(filling(65536)), 1300), comes: echoOf(filling(65536))})
	return all
}

// compressionCases are the cases 12 and 13, of which each stands for 18 messages of different
// sizes: no offer of compression is taken, so messages go on uncompressed, and one that says it
// is compressed is refused.
func compressionCases() (all []exchange) {
	const plain = "permessage-deflate; client_no_context_takeover; client_max_window_bits"
	offers := []string{
		plain,
		plain + "; server_no_context_takeover",
		plain + "; server_max_window_bits=9",
		plain + "; server_max_window_bits=15",
		plain + "; server_no_context_takeover; server_max_window_bits=9",
		plain + "; server_no_context_takeover; server_max_window_bits=15",
		plain + "; server_no_context_takeover; server_max_window_bits=9, " + plain + "; server_no_context_takeover, " + plain,
	}
	add := func(id, offer string) {
		all = append(all, exchange{id: id, verdict: unimplemented, offer: offer, comes: echoOf(hello), code: 1002,
			steps: []any{text(call(hello)), frame{op: opText, data: call(hello), rsv: 4}}})
	}
	for i := range 5 {
		add(fmt.Sprintf("12.%d", i+1), offers[0])
	}
	for i, offer := range offers {
		add(fmt.Sprintf("13.%d", i+1), offer)
	}
	return all
}
