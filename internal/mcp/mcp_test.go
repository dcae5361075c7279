package mcp_test

import (
	"testing"

	"kernos/internal/mcp"
)

func TestHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"us-west1":           "us-west1",
		"us west 1":          "us west 1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"\tindented":         "=?base64?CWluZGVudGVk?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
	} {
		got := mcp.EncodeHeader(text)
		if got != want {
			t.Errorf("EncodeHeader(%q) = %q, want %q", text, got, want)
		}
		if back, ok := mcp.DecodeHeader(got); !ok || back != text {
			t.Errorf("DecodeHeader(%q) = %q, %t", got, back, ok)
		}
	}
	if _, ok := mcp.DecodeHeader("=?base64?***?="); ok {
		t.Error("a value that isn't base64 is taken")
	}
}

func TestTrace(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for text, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01": id, "cc-" + id + "-00f067aa0ba902b7-01-more": id,
		"": "", id: "", "00-" + id + "-00f067aa0ba902b7": "", "00-" + id[1:] + "x-00f067aa0ba902b7-01": "",
	} {
		if got := mcp.Trace(text); got != want {
			t.Errorf("Trace(%q) = %q", text, got)
		}
	}
	parent := mcp.Traceparent(id, "message")
	if mcp.Trace(parent) != id || parent == mcp.Traceparent(id, "another") || mcp.Traceparent("flow-1", "message") != "" {
		t.Errorf("Traceparent is %q", parent)
	}
}
