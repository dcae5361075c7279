package pipe

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"kernos/message"
	"kernos/message/osevent"
)

func TestTally(t *testing.T) {
	var all tally
	all.add([]byte(strings.Join([]string{
		`{"kind":"reply","type":"Ping"}`, `{"kind":"error","type":"Ping"}`, `{"type":"response","name":"Ping"}`, `{"type":"error","name":"Ping"}`,
		`{"kind":"event","type":"A.Done"}`, `{"type":"event","name":"A.Done"}`, ``, "  \r", `{"kind":"query"}`, `nonsense`, `{"kind":"command"}`,
	}, "\n")))
	all.end()
	all.end() // nothing has begun
	if all.outcomes != 4 || all.errors != 2 || all.asking != 3 || all.disconnected {
		t.Errorf("got %+v", all)
	}
	const reason = `{"kind":"error","type":"Syscall.Disconnected","data":{}}` + "\n"
	all.add([]byte(reason))
	if all.outcomes != 4 || all.errors != 3 || !all.disconnected {
		t.Errorf("got %+v", all)
	}
	all.add([]byte(ping)) // a line only looks so
	if all.disconnected {
		t.Errorf("got %+v", all)
	}
}

// However a stream is cut into pieces, its lines are the same.
func FuzzTally(f *testing.F) {
	f.Add([]byte(`{"kind":"error","type":"Syscall.Disconnected"`+"\n"+`{"kind":"reply"`+"\n\n x"), uint8(7))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		var whole, pieces tally
		whole.add(text)
		for rest := text; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			pieces.add(rest[:n])
			rest = rest[n:]
		}
		whole.end()
		pieces.end()
		whole.head, pieces.head = [48]byte{}, [48]byte{}
		if whole != pieces {
			t.Errorf("in one piece: %+v\nin many: %+v", whole, pieces)
		}
	})
}

func stamped(t *testing.T, in io.Reader) []byte {
	t.Helper()
	out, err := io.ReadAll(newStamping(in))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStamping(t *testing.T) {
	long := `{"kind":"query","type":"Ping","data":"` + strings.Repeat("x", 3<<20) + "\"}\n"
	in := ping + "nonsense\r\n\n" + long + `{"kind":"query","type":"Ping","data":{"payload":1.0}}` + "\r\n" + `{"type":"query","name":"Ping","payload":{}}`
	for name, r := range map[string]io.Reader{
		"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)), "with its end": iotest.DataErrReader(strings.NewReader(in)),
	} {
		out := string(stamped(t, r))
		rest, ok := strings.CutPrefix(out, ping+"nonsense\r\n\n"+long)
		if !ok {
			t.Fatalf("%s: what is no bare message was changed: %.200s", name, out)
		}
		lines := strings.Split(rest, "\r\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], `{"kind":"query","type":"Ping","data":{"payload":1.0},"metadata":{"id":"`) ||
			!strings.HasPrefix(lines[1], `{"type":"query","name":"Ping","payload":{},"metadata":{"id":"`) {
			t.Errorf("%s: got %s", name, rest)
		}
	}
	failing := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(ping)))
	if out, err := io.ReadAll(newStamping(failing)); err != iotest.ErrTimeout || string(out) != ping[:1] {
		t.Errorf("after an error: %q, %v", out, err)
	}
}

// Lines stay lines, those that aren't objects stay as they are, and those that are have an id and
// a time.
func FuzzStamping(f *testing.F) {
	f.Add([]byte(ping + "nonsense\n\n" + `{"kind":"query","type":"Ping","data":{}}`))
	f.Add([]byte(`{"type":"command","name":"Echo","payload":{"message":"é"}}` + "\r\n"))
	f.Add([]byte(`{"kind":"querry","type":"ping","extra":1,"metadata":{"id":"a"}}` + "\n" + `{"kind":"query","type":"Ping","data":1,"metadata":1}`))
	f.Add([]byte(`{"kind":"event","type":"A.Done","data":1,"metadata":{"timestamp":5}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := stamped(t, bytes.NewReader(in))
		before, after := bytes.SplitAfter(in, []byte("\n")), bytes.SplitAfter(out, []byte("\n"))
		if len(before) != len(after) {
			t.Fatalf("%d lines became %d", len(before), len(after))
		}
		for i := range before {
			if bytes.Equal(before[i], after[i]) {
				continue
			}
			line := bytes.TrimRight(after[i], "\r\n")
			_, err := osevent.NewEither(false, nil).Decode(line, new(message.Message))
			if !bytes.Contains(line, []byte(`"timestamp":`)) || err != nil && strings.Contains(err.Error(), "required field: metadata") {
				t.Errorf("%q became %q: %v", before[i], after[i], err)
			}
		}
	})
}
