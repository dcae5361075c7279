package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"sync"
)

// MetaTrace is the member of _meta that names the trace of a request, as W3C Trace Context writes it:
// 00-TRACE-SPAN-FLAGS.
const MetaTrace = "traceparent"

var (
	traceparent = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}`)
	})
	trace = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{32}$`) })
)

// Trace returns the trace that a traceparent names, or "".
func Trace(text string) string {
	if found := traceparent().FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// Traceparent returns the traceparent of a message in a workflow, or "" if the workflow isn't named by a trace.
func Traceparent(workflow, message string) string {
	if !trace().MatchString(workflow) {
		return ""
	}
	sum := sha256.Sum256([]byte(message))
	return "00-" + workflow + "-" + hex.EncodeToString(sum[:8]) + "-01"
}
