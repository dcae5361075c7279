package pebble

import (
	"errors"
	"testing"
)

func TestAFlushOfNothingHasNotFailed(t *testing.T) {
	if errEmptyFlush() == nil {
		t.Fatal("the library reports no error for a flush of nothing any more: flushFailed can go")
	}
	if flushFailed(nil) || flushFailed(errEmptyFlush()) || !flushFailed(errors.New("pebble: empty table")) {
		t.Error("a flush of nothing and a failure are not told apart")
	}
}
