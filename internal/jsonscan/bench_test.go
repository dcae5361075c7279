package jsonscan_test

import (
	"fmt"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
)

func BenchmarkValue(b *testing.B) {
	small := `{"kind":"query","type":"Ping","data":{"payload":"hello"},"metadata":{"id":"01JAXV5Y2Z4B8Q0R6T7W9E3F1G","timestamp":1735000000000}}`
	var large strings.Builder
	for large.WriteByte('['); large.Len() < 8<<10; large.WriteByte(',') {
		n := large.Len()
		fmt.Fprintf(&large, `{"id":%d,"name":"item %d","tags":["a","b\n"],"price":%d.25,"nested":{"ok":true,"note":"Grüße"}}`, n, n, n)
	}
	large.WriteString("null]")
	for _, text := range []struct{ name, text string }{{"130B", small}, {"8KB", large.String()}} {
		b.Run(text.name, func(b *testing.B) {
			line := []byte(text.text)
			var s jsonscan.Scanner
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Value(line, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
