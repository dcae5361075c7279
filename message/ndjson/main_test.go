package ndjson_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A Writer has a timer and so, at times, a goroutine; none may outlive its Close.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
