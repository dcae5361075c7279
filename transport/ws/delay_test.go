package ws_test

import (
	"strings"
	"testing"
)

// What is answered is sent although the next call of the same connection takes its time.
func TestAnAnswerDoesNotWaitForTheNextCall(t *testing.T) {
	s := serve(t, nil)
	defer close(s.big)
	conn, in := s.raw()
	one := frame{op: opText, data: `{"jsonrpc":"2.0","id":1,"method":"test_echo","params":["here"]}`}.bytes()
	two := frame{op: opText, data: `{"jsonrpc":"2.0","id":2,"method":"test_hold","params":[2]}`}.bytes()
	if _, err := conn.Write(append(one, two...)); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for buf := make([]byte, 4096); !strings.Contains(got.String(), "here"); {
		n, err := in.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(buf[:n])
	}
}
