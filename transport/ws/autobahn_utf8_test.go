package ws_test

import (
	"fmt"
	"slices"
	"strings"
)

// kosme is valid, and no prefix of it is that ends within one of its letters.
const kosme = "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"

// utf8Cases are the cases 6: what is UTF-8, and what is not.
func utf8Cases() (all []exchange) {
	add := func(e exchange) { all = append(all, e) }
	const umlauts = "Hello-µ@ßöäüàá-UTF-8!!"
	const broken = kosme + "\xed\xa0\x80" + "edited" // a surrogate
	empty := frame{op: opContinuation}
	begun := frame{op: opText, more: true}
	more := frame{op: opContinuation, more: true}

	// 6.1: nothing, in one fragment or in several.
	add(exchange{id: "6.1.1", verdict: passes, steps: []any{text("")}, comes: []string{"error -32700"}})
	add(exchange{id: "6.1.2", verdict: passes, steps: []any{begun, more, empty}, comes: []string{"error -32700"}})
	add(exchange{id: "6.1.3", verdict: passes, steps: []any{begun, frame{op: opContinuation, data: call(hello), more: true}, empty}, comes: echoOf(hello)})

	// 6.2: fragments that end between code points, and within them.
	between := strings.Index(call(umlauts), "ü")
	add(exchange{id: "6.2.1", verdict: passes, steps: []any{text(call(umlauts))}, comes: echoOf(umlauts)})
	add(exchange{id: "6.2.2", verdict: passes, steps: fragmented(opText, call(umlauts), between), comes: echoOf(umlauts)})
	add(exchange{id: "6.2.3", verdict: passes, steps: fragmented(opText, call(umlauts), 1), comes: echoOf(umlauts)})
	add(exchange{id: "6.2.4", verdict: passes, steps: fragmented(opText, call(kosme), 1), comes: echoOf(kosme)})

	// 6.3: not UTF-8, in one fragment or in many.
	add(exchange{id: "6.3.1", verdict: passes, steps: []any{text(broken)}, code: 1007})
	add(exchange{id: "6.3.2", verdict: passes, steps: fragmented(opText, broken, 1), code: 1007})

	// 6.4: how soon that is found out. The RFC asks for no haste, and here a message is looked at
	// when all of it has come: pings between its fragments are still answered.
	const large = kosme + "\xf4\x90\x80\x80" + "edited" // beyond U+10FFFF, as its 13th byte tells
	for i, at := range []struct{ first, second int }{{len(kosme), len(kosme) + 4}, {len(kosme) + 1, len(kosme) + 2}} {
		add(exchange{id: fmt.Sprint("6.4.", 1+i), verdict: nonStrict, code: 1007, steps: []any{
			frame{op: opText, data: large[:at.first], more: true}, ping("A"), "pong A",
			frame{op: opContinuation, data: large[at.first:at.second], more: true}, ping("B"), "pong B",
			frame{op: opContinuation, data: large[at.second:]},
		}})
		whole := text(large).bytes()
		head := len(whole) - len(large)
		add(exchange{id: fmt.Sprint("6.4.", 3+i), verdict: nonStrict, code: 1007, chop: stepWise, steps: []any{
			whole[:head+at.first], whole[head+at.first : head+at.second], whole[head+at.second:],
		}})
	}

	// 6.5 to 6.23: sequences of Markus Kuhn's stress test for decoders.
	for group, sequences := range utf8Sequences() {
		for i, s := range sequences {
			e := exchange{id: fmt.Sprintf("6.%d.%d", 5+group, i+1), verdict: passes}
			switch {
			case !s.valid:
				e.steps, e.code = []any{text(s.text)}, 1007
			case s.text == "\x00": // JSON has no room for it
				e.steps, e.comes = []any{text(call(s.text))}, []string{"error -32700"}
			default:
				e.steps, e.comes = []any{text(call(s.text))}, echoOf(s.text)
			}
			add(e)
		}
	}
	return all
}

// sequence is some bytes that are UTF-8, or not.
type sequence struct {
	valid bool
	text  string
}

func utf8Sequences() [][]sequence {
	all := func(valid bool, texts ...string) (all []sequence) {
		for _, t := range texts {
			all = append(all, sequence{valid, t})
		}
		return all
	}
	valid := func(texts ...string) []sequence { return all(true, texts...) }
	invalid := func(texts ...string) []sequence { return all(false, texts...) }

	var prefixes []sequence
	for n := range len(kosme) {
		prefixes = append(prefixes, sequence{slices.Contains([]int{2, 5, 7, 9, 11}, n+1), kosme[:n+1]})
	}
	run := func(first, end byte, between string) (s string) {
		for b := first; b < end; b++ {
			s += string([]byte{b}) + between
		}
		return s
	}
	cut := []string{
		"\xc0", "\xe0\x80", "\xf0\x80\x80", "\xf8\x80\x80\x80", "\xfc\x80\x80\x80\x80",
		"\xdf", "\xef\xbf", "\xf7\xbf\xbf", "\xfb\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf",
	}
	noncharacters := []string{"\uFFFE", "\uFFFF"}
	for plane := rune(1); plane <= 16; plane++ {
		noncharacters = append(noncharacters, string(plane<<16|0xFFFE), string(plane<<16|0xFFFF))
	}
	return [][]sequence{
		valid("hello$world", "hello¢world", "hello€world", "hello𤭢world", kosme),
		prefixes,
		// The first and the last of each length.
		valid("\x00", "\xc2\x80", "\xe0\xa0\x80", "\xf0\x90\x80\x80"),
		invalid("\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80"),
		valid("\x7f", "\xdf\xbf", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"),
		invalid("\xf7\xbf\xbf\xbf", "\xfb\xbf\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf\xbf"),
		slices.Concat(valid("\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbd", "\xf4\x8f\xbf\xbf"), invalid("\xf4\x90\x80\x80")),
		// Bytes that are out of place.
		invalid("\x80", "\xbf", "\x80\xbf", "\x80\xbf\x80", "\x80\xbf\x80\xbf", "\x80\xbf\x80\xbf\x80", "\x80\xbf\x80\xbf\x80\xbf", run(0x80, 0xbf, "")),
		invalid(run(0xc0, 0xdf, " "), run(0xe0, 0xef, " "), run(0xf0, 0xf7, " "), run(0xf8, 0xfb, " "), run(0xfc, 0xfd, " ")),
		invalid(cut...),
		invalid(strings.Join(cut, "")),
		invalid("\xfe", "\xff", "\xfe\xfe\xff\xff"),
		// More bytes than a code point needs.
		invalid("\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xf8\x80\x80\x80\xaf", "\xfc\x80\x80\x80\x80\xaf"),
		invalid("\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf8\x87\xbf\xbf\xbf", "\xfc\x83\xbf\xbf\xbf\xbf"),
		invalid("\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf8\x80\x80\x80\x80", "\xfc\x80\x80\x80\x80\x80"),
		// Surrogates, one by one and in pairs.
		invalid("\xed\xa0\x80", "\xed\xad\xbf", "\xed\xae\x80", "\xed\xaf\xbf", "\xed\xb0\x80", "\xed\xbe\x80", "\xed\xbf\xbf"),
		invalid("\xed\xa0\x80\xed\xb0\x80", "\xed\xa0\x80\xed\xbf\xbf", "\xed\xad\xbf\xed\xb0\x80", "\xed\xad\xbf\xed\xbf\xbf",
			"\xed\xae\x80\xed\xb0\x80", "\xed\xae\x80\xed\xbf\xbf", "\xed\xaf\xbf\xed\xb0\x80", "\xed\xaf\xbf\xed\xbf\xbf"),
		// Code points that are no characters, and special ones.
		valid(noncharacters...),
		valid("\uFFF9", "\uFFFA", "\uFFFB", "\uFFFC", "\uFFFD", "\uFFFE", "\uFFFF"),
	}
}
