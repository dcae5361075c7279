package connection_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The limits that docs/ARCHITECTURE.md names.
const (
	maxQueued      = 1024
	maxQueuedBytes = 1 << 20
	maxQueuedAll   = 64 << 20
	maxOutgoing    = 1024
	maxUnread      = 4096

	maxPendingAll   = 64 << 20
	fewPendingBytes = 64 << 10
)
