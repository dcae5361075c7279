package history

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestALineIsAFilter(t *testing.T) {
	for line, want := range map[string]string{
		``:                                   `{} []`,
		`milk  "two words"`:                  `{} [milk two words]`,
		`kind:error,reply type:Http.* milk`:  `{"kind":"error,reply","type":"Http.*"} [milk]`,
		`corr:req-7 cause:a id:b since:5m`:   `{"id":"b","correlation":"req-7","causation":"a","since":"5m"} []`,
		`by:ci code:404,409 until:09:30`:     `{"until":"09:30","principal":"ci","code":[404,409]} []`,
		`https://example.com "a:b" since:1h`: `{"since":"1h"} [https://example.com a:b]`,
		`type:"Memory.Set"`:                  `{"type":"Memory.Set"} []`,
		`knd:error`:                          `422 knd did you mean kind`,
		`kind:`:                              `422 no value`,
		`code:many`:                          `422 numbers`,
		`kind:error kind:reply`:              `422 twice`,
		`id:a id:b`:                          `422 twice`,
	} {
		f := filter{Line: line}
		words, err := f.readLine()
		if rest, ok := strings.CutPrefix(want, "422 "); ok {
			for _, part := range strings.Fields(rest) {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %v, want an error with %q", line, err, part)
				}
			}
			continue
		}
		f.Line = ""
		data, _ := json.Marshal(f)
		if got := string(data) + " [" + strings.Join(words, " ") + "]"; err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", line, got, err, want)
		}
	}
}

func FuzzLine(f *testing.F) {
	for _, line := range []string{`kind:error type:Http.* corr:… since:5m milk`, `"a b" c:d`, `code:1e3,[`, `"`, `:`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		in := filter{Line: line}
		words, err := in.readLine()
		if err == nil && slices.Contains(words, "") && !strings.Contains(line, `"`) {
			t.Errorf("%q has an empty word", line)
		}
	})
}
