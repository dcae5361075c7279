package jsonvalue_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"kernos/internal/jsonvalue"
)

var streamed = []string{
	"", "a", "milk\n", `"quoted" \ and \u0041`, "é€😀\x00\x1f\u2028", strings.Repeat("0123456789😀\"", 20_000),
}

// A text that is quoted and unquoted as it is read comes back, however its bytes are cut.
func TestTextsAreQuotedAsTheyAreRead(t *testing.T) {
	cuts := map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "early end": iotest.DataErrReader,
	}
	for name, cut := range cuts {
		for _, text := range streamed {
			quoted, err := io.ReadAll(cut(jsonvalue.Quote(cut(strings.NewReader(text)))))
			var back string
			if err != nil || json.Unmarshal(quoted, &back) != nil || back != text {
				t.Errorf("%s: %.40q became %.60s, %v", name, text, quoted, err)
			}
			got, err := io.ReadAll(cut(jsonvalue.Unquote(cut(bytes.NewReader(quoted)))))
			if err != nil || string(got) != text {
				t.Errorf("%s: %.60s became %.40q, %v", name, quoted, got, err)
			}
		}
	}
	for _, binary := range []string{"\xff", "a\xc3", "\xe2\x82", strings.Repeat("a", 40_000) + "\xff"} {
		if _, err := io.ReadAll(jsonvalue.Quote(strings.NewReader(binary))); err != jsonvalue.ErrNotText {
			t.Errorf("%.10q: %v", binary, err)
		}
	}
	for quoted, want := range map[string]string{`"\u00e9\ud83d\ude00\/\b\f\n\r\t"`: "é😀/\b\f\n\r\t", `"\u0041\u0042"`: "AB"} {
		if got, err := io.ReadAll(jsonvalue.Unquote(strings.NewReader(quoted))); err != nil || string(got) != want {
			t.Errorf("%s became %q, %v", quoted, got, err)
		}
	}
	for _, broken := range []string{``, `x`, `"`, `"a`, `"\`, `"\u12`, `"\x"`} {
		if got, err := io.ReadAll(jsonvalue.Unquote(strings.NewReader(broken))); err != jsonvalue.ErrNotJSON {
			t.Errorf("%s became %q, %v", broken, got, err)
		}
	}
}

func TestJSONIsCheckedAndIndentedAsItIsRead(t *testing.T) {
	for text, valid := range map[string]bool{`{"a":[1,2.50,{}],"b":"\u0041"}`: true, ` [] `: true, `1 2`: false, `{"a"`: false, ``: false, `{"a":1,"a":2}`: true} {
		r := jsonvalue.Checked(iotest.OneByteReader(strings.NewReader(text)))
		if read, err := io.ReadAll(r); (err == nil) != valid || valid && string(read) != text || !valid && err != jsonvalue.ErrNotJSON {
			t.Errorf("%s became %s, %v", text, read, err)
		}
		_ = r.Close()
		var got, want bytes.Buffer
		if err := jsonvalue.Indent(&got, strings.NewReader(text)); valid && err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if valid && (json.Indent(&want, bytes.TrimSpace([]byte(text)), "", "  ") != nil || strings.TrimSuffix(got.String(), "\n") != want.String()) {
			t.Errorf("%s became %s", text, &got)
		}
	}
}
