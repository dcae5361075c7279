package message_test

import (
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

// benchLines are a message as it comes most often, and a large one with structure.
func benchLines() map[string][]byte {
	var items strings.Builder
	for items.Len() < 8<<10 {
		n := items.Len()
		fmt.Fprintf(&items, `{"id":%d,"name":"item %d","tags":["a","b\n"],"price":%d.25,"nested":{"ok":true,"note":"Grüße"}},`, n, n, n)
	}
	metadata := `{"id":"01JAXV5Y2Z4B8Q0R6T7W9E3F1G","timestamp":1735000000000}`
	return map[string][]byte{
		"130B": []byte(line(`"query"`, `"Ping"`, `{"payload":"hello"}`, metadata)),
		"8KB":  []byte(line(`"query"`, `"Ping"`, `{"payload":[`+items.String()+`null]}`, metadata)),
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, line := range benchLines() {
		b.Run(name, func(b *testing.B) {
			var d message.Decoder
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for name, line := range benchLines() {
		b.Run(name, func(b *testing.B) {
			m, err := message.Decode(line)
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 0, message.MaxLine)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				buf = message.Append(buf[:0], &m)
			}
		})
	}
}
