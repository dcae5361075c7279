package mcp

import "testing"

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
		got := EncodeHeader(text)
		if got != want {
			t.Errorf("EncodeHeader(%q) = %q, want %q", text, got, want)
		}
		if back, ok := DecodeHeader(got); !ok || back != text {
			t.Errorf("DecodeHeader(%q) = %q, %t", got, back, ok)
		}
	}
	if _, ok := DecodeHeader("=?base64?***?="); ok {
		t.Error("a value that isn't base64 is taken")
	}
}
