package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kernos/capability/script/engine"
)

// TestCodeThatIsHardToTranslate: each source is refused, in bounded time, and the next one is taken.
func TestCodeThatIsHardToTranslate(t *testing.T) {
	e := newEngine(t, engine.Options{})
	for _, c := range []struct{ name, code, want string }{
		{"much", strings.Repeat("x;", 1<<16), "at most 65536 are taken"},
		{"brackets", "x = " + strings.Repeat("(", 5000), "levels of brackets"},
		{"brackets with values", "x = " + strings.Repeat("[a,", 5000), "levels of brackets"},
		{"operators", "x = " + strings.Repeat("! ", 5000) + "1", "levels of brackets"},
		{"an ambiguous expression", "x = " + strings.Repeat("a?(b):c=>", 40) + "1", "takes too long to translate"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		_, err := e.Compile(ctx, engine.Source{Name: "Test.Code", Code: c.code})
		cancel()
		if _, ok := errors.AsType[*engine.CodeError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
		compile(t, e, pure)
	}
}
