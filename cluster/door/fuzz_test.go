package door

import (
	"bytes"
	"testing"
)

// FuzzIntroduction: any bytes are an introduction, which is written as it was read, or an error. Nothing after its line is read.
func FuzzIntroduction(f *testing.F) {
	for _, s := range []string{
		`{"key":"k","kind":"lines"}`, `{"key":"k","kind":"tcp","remote":"127.0.0.1:1","local":"[::1]:2","tls":true}`, `{"key":"k","kind":"http"} {}`, `{"kind":"lines"}`, "", "[]", `{"key":"k","kind":"lines","x":1}`,
	} {
		f.Add([]byte(s + "\nrest"))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		in := bytes.NewReader(p)
		first, err := readIntroduction(in)
		if err != nil {
			return
		}
		read := p[:len(p)-in.Len()]
		if bytes.IndexByte(read, '\n') != len(read)-1 {
			t.Fatalf("%q was read", read)
		}
		again, err := readIntroduction(bytes.NewReader(first.line()))
		if err != nil || again != first {
			t.Fatalf("%+v, then %+v: %v", first, again, err)
		}
	})
}

// FuzzFrames: however the frames of a WebSocket come in pieces, their ends are found in the same places.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x81\x05hello\x88\x02\x03\xe8"), 3)
	f.Add(append([]byte("\x82\x7e\x01\x00"), make([]byte, 256)...), 7)
	f.Fuzz(func(t *testing.T, p []byte, piece int) {
		var whole, pieces frames
		whole.follow(p)
		piece = max(1, piece%64)
		for rest := p; len(rest) > 0; {
			n := min(piece, len(rest))
			pieces.follow(rest[:n])
			rest = rest[n:]
		}
		if whole.left != pieces.left || !bytes.Equal(whole.head, pieces.head) || whole.closed != pieces.closed {
			t.Fatalf("%+v, in pieces %+v", whole, pieces)
		}
	})
}
