package ws_test

import (
	"fmt"
	"strings"
)

// closeCases are the cases 7: how a connection is closed.
func closeCases() (all []exchange) {
	add := func(e exchange) { all = append(all, e) }
	saying := func(data string) []any { return []any{frame{op: opClose, data: data}} }

	// 7.1: what comes before a close frame counts, what comes after it does not.
	long := filling(256 << 10)
	add(exchange{id: "7.1.1", verdict: passes, steps: []any{text(call(hello)), goodbye(1000)}, comes: echoOf(hello)})
	add(exchange{id: "7.1.2", verdict: passes, steps: []any{goodbye(1000), frame{op: opClose}}})
	add(exchange{id: "7.1.3", verdict: passes, steps: []any{goodbye(1000), ping("")}})
	add(exchange{id: "7.1.4", verdict: passes, steps: []any{goodbye(1000), text(call(hello))}})
	add(exchange{id: "7.1.5", verdict: passes, steps: halves(call(hello), goodbye(1000))})
	add(exchange{id: "7.1.6", verdict: informational, steps: []any{text(call(long)), text(call(hello)), goodbye(1000), ping("")},
		comes: []string{"echo " + long, "echo " + hello}})

	// 7.3: lengths of what a close frame says.
	add(exchange{id: "7.3.1", verdict: passes, steps: saying("")})
	add(exchange{id: "7.3.2", verdict: passes, steps: saying("a"), code: 1002})
	add(exchange{id: "7.3.3", verdict: passes, steps: saying(reasoned(1000, ""))})
	add(exchange{id: "7.3.4", verdict: passes, steps: saying(reasoned(1000, hello))})
	add(exchange{id: "7.3.5", verdict: passes, steps: saying(reasoned(1000, strings.Repeat("*", 123)))})
	add(exchange{id: "7.3.6", verdict: passes, steps: saying(reasoned(1000, strings.Repeat("*", 124))), code: 1002})

	// 7.5: a reason that is not UTF-8. The suite takes 1007 too.
	add(exchange{id: "7.5.1", verdict: passes, steps: saying(reasoned(1000, kosme+"\xed\xa0\x80edited")), code: 1002})

	// 7.7 and 7.9: codes that may be said, and those that may not. 7.13: those beyond them all.
	for i, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999} {
		add(exchange{id: fmt.Sprint("7.7.", i+1), verdict: passes, steps: []any{goodbye(code)}, code: code})
	}
	for i, code := range []int{0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999} {
		add(exchange{id: fmt.Sprint("7.9.", i+1), verdict: passes, steps: []any{goodbye(code)}, code: 1002})
	}
	for i, code := range []int{5000, 65535} {
		add(exchange{id: fmt.Sprint("7.13.", i+1), verdict: informational, steps: []any{goodbye(code)}, code: 1002})
	}
	return all
}
