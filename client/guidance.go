package client

import (
	"encoding/json"

	"kernos/schema"
)

// Guidance explains what is wrong with a call, and what to do about it. transport/rpc writes it and has a type of its own:
// with that package, every client would have the server in it. A test keeps the two equal.
type Guidance struct {
	ErrorKind string `json:"error_kind"`
	Module    string `json:"module,omitempty"`
	Method    string `json:"method,omitempty"` // with its module before a dot, or without
	Reason    string `json:"reason,omitempty"`

	AvailableMethods []string `json:"available_methods,omitempty"`

	Action          string          `json:"action"`
	Namespace       string          `json:"namespace,omitempty"`
	SuggestedMethod string          `json:"suggested_method,omitempty"`
	ExampleParams   json.RawMessage `json:"example_params,omitempty"`
	Message         string          `json:"message,omitempty"`  // of a custom action
	Problems        schema.Problems `json:"problems,omitempty"` // of invalid parameters: each with what the schema has about its field
}

// The kinds of errors and of actions that guidance knows.
const (
	ModuleNotFound = "module_not_found"
	MethodNotFound = "method_not_found"
	InvalidParams  = "invalid_params"

	CallServiceSchema = "call_service_schema"
	CallModuleSchema  = "call_module_schema"
	TryMethod         = "try_method"
	Custom            = "custom"
)
