// Package kernosdemo holds the language model that is inside Kernos: 5.3 million parameters,
// trained for demonstrations and tests of sessions. It can remember, look up, fetch, schedule and
// call tools by name, and knows nothing else.
package kernosdemo

import (
	_ "embed"
	"unsafe"
)

//go:embed kernos-demo.gguf
var file string

// File returns the model as a GGUF file. The bytes are those of the binary and must not be changed.
func File() []byte { return unsafe.Slice(unsafe.StringData(file), len(file)) }
