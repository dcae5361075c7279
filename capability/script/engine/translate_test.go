package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kernos/capability/script/engine"
)

// TestCodeThatIsHardToTranslate: each source is refused before esbuild takes long, and the next one is taken.
func TestCodeThatIsHardToTranslate(t *testing.T) {
	e := newEngine(t, engine.Options{})
	for _, c := range []struct{ name, code, want string }{
		{"much", strings.Repeat("x;", 1<<16), "at most 65536 are taken"},
		{"brackets", "x = " + strings.Repeat("(", 5000), "levels of brackets"},
		{"brackets with values", "x = " + strings.Repeat("[a,", 5000), "levels of brackets"},
		{"operators", "x = " + strings.Repeat("! ", 5000) + "1", "levels of brackets"},
		{"an ambiguous expression", "x = " + strings.Repeat("a?(b):c=>", 40) + "1 as any", "to be read as TypeScript"},
		{"one with comments", "x = " + strings.Repeat("a?/*)*/(b=')')/**/:c=>", 40) + "1 as any", "to be read as TypeScript"},
		{"one with odd spaces", "x = " + strings.Repeat("a?\u00a0(b)\ufeff:c=>", 40) + "1 as any", "to be read as TypeScript"},
		{"one with type parameters", "x = " + strings.Repeat("a?<T>(b):c=>", 40) + "1 as any", "to be read as TypeScript"},
		{"one before much code", "x = " + strings.Repeat("a?(b):c=>", 8) + "[" + strings.Repeat("a.b(1),", 9000) + "] as any", "to be read as TypeScript"},
		{"an ambiguous type", "type x = " + strings.Repeat("(infer b extends ", 40) + "c" + strings.Repeat(" ? 1 : 2)", 40), "to be read as TypeScript"},
	} {
		_, err := e.Compile(context.Background(), engine.Source{Name: "Test.Code", Code: c.code})
		if _, ok := errors.AsType[*engine.CodeError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
		compile(t, e, pure)
	}
	compile(t, e, "const a = 1, b = 2; export const f = "+strings.Repeat("a?(b):c=>", 40)+"1") // which is JavaScript
}
