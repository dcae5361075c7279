package message_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"kernos/message"
)

// An error is the answer of last resort, so it must fit into a line whatever its
// text is and however long the names are that it repeats.
func TestEveryErrorFitsIntoALine(t *testing.T) {
	// Characters that grow when they are escaped, and others.
	alphabet := []string{`"`, `\`, "\n", "\t", "\x00", "\x1b", "\u009b", "\x7f", "\xff", "\uFFFD", "é", "日", "😀", "a", "\u2028", "<"}
	r := rand.New(rand.NewPCG(3, 4))
	text := func() string {
		var b strings.Builder
		few := alphabet[r.IntN(len(alphabet)):]
		few = few[:1+r.IntN(len(few))]
		for n := r.IntN(3500); n > 0; n-- {
			b.WriteString(few[r.IntN(len(few))])
		}
		return b.String()
	}
	check := func(e *message.Error) {
		t.Helper()
		request := message.Message{Kind: message.KindCommand, Type: message.Type("A." + strings.Repeat("B", 126)),
			Metadata: message.Metadata{ID: message.ID(strings.Repeat(`"`, 256)), Correlation: strings.Repeat(`\`, 256)}}
		m := request.Fail(e)
		m.Metadata.ID = message.ID(strings.Repeat(`\`, 256))
		m.Metadata.Timestamp = 9223372036854775799
		m.Metadata.IdempotencyKey, m.Metadata.SchemaVersion = strings.Repeat(`"`, 256), "0.3"
		m.Metadata.Extra = `"x-a":"` + strings.Repeat("x", message.MaxExtra-8) + `"`
		line := message.Append(nil, &m)
		if len(line) > message.MaxLine {
			t.Fatalf("an error makes a line of %d bytes", len(line))
		}
		got, err := message.Decode(line)
		if err != nil {
			t.Fatalf("it can't be read back: %v", err)
		}
		if _, err := message.ParseError(got.Data); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		var e *message.Error
		for range 1 + r.IntN(8) {
			e = &message.Error{Code: 400 + r.IntN(200), Message: text(), Cause: e}
		}
		check(e)
	}
	var worst *message.Error
	for range 10 {
		worst = &message.Error{Code: 599, Message: strings.Repeat(`"`, 10000), Cause: worst}
	}
	check(worst)
}

// A line may quote back nearly all of itself in the error that rejects it.
func TestEveryRejectionFitsIntoALine(t *testing.T) {
	for _, piece := range []string{"x", `\"`, `\\`, `\u0000`, "é", "😀", `\n`} {
		long := strings.Repeat(piece, 16000/len(piece))
		for _, text := range []string{
			line(`"`+long+`"`, `"Ping"`, `1`, meta),
			line(`"query"`, `"`+long+`"`, `1`, meta),
			line(`"query"`, `"Ping"`, `1`, `{"id":"`+long+`","timestamp":1}`),
			line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":"`+long+`"}`),
			line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":1,"`+long+`":1}`),
			line(`"query"`, `"Ping"`, `1`, `"`+long+`"`),
			line(`"error"`, `"Ping"`, `{"`+long+`":1}`, meta),
			line(`"error"`, `"Ping"`, `{"code":"`+long+`"}`, meta),
			`{"` + long + `":1,"` + long + `":1}`,
			`{"kind":"query","type":"Ping","data":1,"metadata":` + meta + `,"` + long + `":1}`,
			`"` + long + `"`,
		} {
			r := rejection(t, new(message.Decoder), text)
			m := message.SalvageLine([]byte(text)).Request(message.Current)
			failure := m.Fail(&r.Err)
			failure.Metadata.ID = "a"
			if n := len(message.Append(nil, &failure)); n > message.MaxLine/4 {
				t.Errorf("the answer to %.40s… has %d bytes", text, n)
			}
		}
	}
}
