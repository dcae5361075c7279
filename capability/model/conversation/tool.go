package conversation

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/message"
)

// A Tool is a syscall that a model may call.
type Tool struct {
	Name        message.Type   `json:"name" jsonschema_description:"The syscall: Domain.Action."`
	Description string         `json:"description,omitempty" jsonschema_description:"What it does."`
	InputSchema jsontext.Value `json:"inputSchema,omitempty" jsonschema_description:"The JSON Schema of its data."`
}

// Names are the tools of a request by the names that providers know them by.
type Names map[string]message.Type

// Syscall returns the syscall that a provider calls by a name.
func (n Names) Syscall(name string) message.Type {
	if t, ok := n[name]; ok {
		return t
	}
	return message.Type(strings.Replace(name, "_", ".", 1)) // calling it fails with a 404, which the model is shown
}

// maxName is how long the name of a tool may be at all providers.
const maxName = 64

// ToolName returns the name that providers know a syscall by.
func ToolName(t message.Type) string { return kernel.ToolName(t, maxName) }
