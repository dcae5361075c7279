package ws_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"kernos/internal/testkit"
)

// The opcodes of RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA

	theEnd = 0xff // on no wire: nothing comes any more
)

// frame is a frame that a client sends, right or wrong. It is written by hand, so that the
// library that the server reads with does not vouch for itself.
type frame struct {
	op   byte
	data string
	rsv  byte
	more bool // it is not the last of its message
}

// bytes is the frame on the wire, masked.
func (f frame) bytes() []byte {
	first := f.op | f.rsv<<4
	if !f.more {
		first |= 0x80
	}
	out := []byte{first}
	switch n := len(f.data); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	mask := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	out = append(out, mask[:]...)
	from := len(out)
	out = append(out, f.data...)
	for i := range out[from:] {
		out[from+i] ^= mask[i%4]
	}
	return out
}

// peer is a client without a library.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	gone bool // nothing can be sent any more
}

// connect connects, and offers extensions if there are any.
func connect(t *testing.T, s *server, extensions string) (*peer, http.Header) {
	t.Helper()
	conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	request := "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
	if extensions != "" {
		request += "Sec-WebSocket-Extensions: " + extensions + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The key and its answer are those of RFC 6455, section 1.3.
	if got := answer.Header.Get("Sec-WebSocket-Accept"); answer.StatusCode != http.StatusSwitchingProtocols || got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("got %s with %q", answer.Status, got)
	}
	return &peer{t: t, conn: conn, in: in}, answer.Header
}

// send sends bytes in chops of some size, 0 being all at once. A server that has closed the
// connection need not take them.
func (p *peer) send(data []byte, chop int) {
	for len(data) > 0 && !p.gone {
		n := len(data)
		if chop > 0 {
			n = min(n, chop)
		}
		if _, err := p.conn.Write(data[:n]); err != nil {
			p.gone = true
		}
		data = data[n:]
	}
}

// event returns what comes next: "pong" and its data; "echo" and the text of a call, of which
// everything has come; "error" and its code; "close" and its code; "end" of the connection.
func (p *peer) event() string {
	p.t.Helper()
	var echo *string
	for {
		op, data := p.frame()
		switch op {
		case opPong:
			return "pong " + string(data)
		case opClose:
			if len(data) < 2 {
				p.t.Fatalf("a close frame without a code: %q", data)
			}
			return fmt.Sprint("close ", binary.BigEndian.Uint16(data))
		case opPing: // the server's own, to see whether we are there
			continue
		case opText:
		case theEnd:
			return "end"
		default:
			p.t.Fatalf("a frame of the server has opcode %d", op)
		}
		var answer struct {
			Error  *struct{ Code int }
			Params struct {
				Result struct {
					Type string
					Data struct{ Text string }
				}
			}
		}
		if err := json.Unmarshal(data, &answer); err != nil {
			p.t.Fatalf("%v: %.200s", err, data)
		}
		switch item := answer.Params.Result; {
		case answer.Error != nil:
			return fmt.Sprint("error ", answer.Error.Code)
		case item.Type == "data":
			echo = &item.Data.Text
		case item.Type == "done" && echo != nil:
			return "echo " + *echo
		case item.Type != "":
			p.t.Fatalf("neither echo nor error: %.200s", data)
		}
	}
}

// frame reads a frame, and checks what a server owes its peer: no mask, no reserved bits, no
// fragments of what it need not fragment, and a length in as few bytes as there may be.
func (p *peer) frame() (op byte, data []byte) {
	p.t.Helper()
	var head [10]byte
	if _, err := io.ReadFull(p.in, head[:2]); err == io.EOF {
		return theEnd, nil
	} else if err != nil {
		p.t.Fatalf("no frame: %v", err)
	}
	if head[0]&0xf0 != 0x80 || head[1]&0x80 != 0 {
		p.t.Fatalf("a frame of the server begins with %x", head[:2])
	}
	length, least := uint64(head[1]), uint64(0)
	switch length {
	case 126:
		p.read(head[2:4])
		length, least = uint64(binary.BigEndian.Uint16(head[2:4])), 126
	case 127:
		p.read(head[2:10])
		length, least = binary.BigEndian.Uint64(head[2:10]), 1<<16
	}
	if op = head[0] & 0xf; length < least || op >= opClose && length > 125 {
		p.t.Fatalf("a frame of the server begins with %x", head)
	}
	data = make([]byte, length)
	p.read(data)
	return op, data
}

func (p *peer) read(into []byte) {
	p.t.Helper()
	if _, err := io.ReadFull(p.in, into); err != nil {
		p.t.Fatalf("a frame of the server is cut: %v", err)
	}
}

// excerpt is the beginning of an event, for a test that fails.
func excerpt(event string) string {
	if len(event) > 100 {
		return fmt.Sprintf("%q… (%d bytes)", event[:60], len(event))
	}
	return fmt.Sprintf("%q", event)
}
