package memory

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

func TestLargeValuesGoInAndOut(t *testing.T) {
	w := newWorld(t, Options{})
	big := strings.Repeat("0123456789", 500_000)
	for _, c := range []struct{ content, as, want string }{
		{`{"a": [1, 2]}`, ``, `{"a":[1,2]}`},
		{`{"a": [1, 2]}`, `,"as":"json"`, `{"a":[1,2]}`},
		{`{"a": [1, 2]}`, `,"as":"text"`, `"{\"a\": [1, 2]}"`},
		{"# Title\n", ``, `"# Title\n"`},
		{"", ``, `""`},
		{"true", ``, `true`},
		{"1" + big, ``, "1" + big}, // a number
		{big, `,"as":"text"`, `"` + big + `"`},
		{`["` + big + `"]`, ``, `["` + big + `"]`},
		{"\u2028é", ``, "\"\u2028é\""},
	} {
		w.reply("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}%s}`, w.file(c.content), c.as), ok)
		if got := w.ask("Get", `{"key":"a"}`); string(got.Data) != c.want {
			t.Errorf("%.40q comes back as %.40s", c.content, got.Data)
		}
	}
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, w.file("\xff")), 422, "neither JSON nor UTF-8")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q},"as":"text"}`, w.file("\xff")), 422, "neither JSON nor UTF-8")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q},"as":"json"}`, w.file("{")), 422, "not JSON: ")
	w.refuse("Set", `{"key":"a","valueRef":{"scheme":"file","path":"/etc/passwd"}}`, 403, "may mean a blob of the kernel only")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, w.blobs.Path(blobs.Sum([]byte("none")))), 404, "File not found")
	w.refuse("Set", `{"key":"a","valueRef":{"scheme":"https","authority":"example.com","path":"/x"}}`, 403, "https pointers")

	// A large version in the history is pointed to.
	w.reply("Set", fmt.Sprintf(`{"key":"b","valueRef":{"scheme":"file","path":%q},"as":"text"}`, w.file(big)), ok)
	w.reply("History", `{"key":"b"}`, `{"versions":[{"revision":1,"valueRef":`+
		string(w.blobs.Pointer(blobs.Sum([]byte(`"`+big+`"`))).Append(nil))+fmt.Sprintf(`,"size":%d,"mediaType":"application/json"`, len(big)+2)+`,"updated":1700000000000,"message":"c`+fmt.Sprint(w.ids.Load())+`"}]}`)
	w.reply("Set", `{"key":"b","value":1}`, ok)
	if got := w.ask("Get", `{"key":"b","revision":1,"withRevision":true}`); len(got.Data) < len(big) {
		t.Errorf("got %.100s", got.Data)
	}
}

// Who declares what data is need not fear that it is taken for something else.
func TestDataPointersAreWhatTheirMediaTypeSays(t *testing.T) {
	w := newWorld(t, Options{})
	for _, c := range []struct{ path, as, want string }{
		{`text/plain,12345`, ``, `"12345"`},
		{`,12345`, ``, `"12345"`}, // which is text/plain
		{`text/markdown;base64,W10=`, ``, `"[]"`},
		{`text/plain;charset=utf-8,{"a":1}`, ``, `"{\"a\":1}"`},
		{`application/octet-stream,7`, ``, `"7"`},
		{`application/json,12345`, ``, `12345`},
		{`application/json;charset=utf-8;base64,W10=`, ``, `[]`},
		{`Application/JSON,"a"`, ``, `"a"`},
		{`application/problem+json,{"a":1}`, ``, `{"a":1}`},
		{`text/plain,12345`, `,"as":"json"`, `12345`},
		{`application/json,12345`, `,"as":"text"`, `"12345"`},
	} {
		path := string(jsonscan.AppendQuoted(nil, c.path))
		w.reply("Set", `{"key":"a","valueRef":{"scheme":"data","path":`+path+`}`+c.as+`}`, ok)
		w.reply("Get", `{"key":"a"}`, c.want)
	}
	w.refuse("Set", `{"key":"a","valueRef":{"scheme":"data","path":"application/json,{"}}`, 422, "not JSON: ")
	w.refuse("Set", `{"key":"a","valueRef":{"scheme":"data","path":"image/png;base64,/w=="}}`, 422, "neither JSON nor UTF-8")
}

func TestValueMayNotBeTooLarge(t *testing.T) {
	w := newWorld(t, Options{})
	path := w.file("large")
	if err := os.Truncate(path, MaxValue+1); err != nil {
		t.Fatal(err)
	}
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, path), 413, "larger than 67108864 bytes")
	// A text may grow when it is quoted.
	if _, err := limited(make([]byte, MaxValue)); err != nil {
		t.Error(err)
	}
	if _, err := limited(make([]byte, MaxValue+1)); err == nil || err.(*message.Error).Code != 413 {
		t.Errorf("got %v", err)
	}
}

func TestValueMayNotBeTooDeep(t *testing.T) {
	w := newWorld(t, Options{})
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	most := jsonscan.MaxDepth - depthAround
	w.reply("Set", `{"key":"a","value":`+deep(most)+`}`, ok)
	w.reply("Get", `{"key":"a"}`, deep(most))
	if got := w.ask("Get", `{"key":"a","withRevision":true}`); got.Kind != message.KindReply {
		t.Errorf("got %.100s", got.Data)
	}
	if got := w.ask("History", `{"key":"a"}`); got.Kind != message.KindReply {
		t.Errorf("got %.100s", got.Data)
	}
	w.refuse("Set", `{"key":"a","value":`+deep(most+1)+`}`, 422, "nested deeper than")
	w.refuse("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q},"as":"json"}`, w.file(deep(most+1))), 422, "nested deeper than")
}

func TestBlobThatIsGoneIsNoValue(t *testing.T) {
	w := newWorld(t, Options{})
	path := w.file(`"` + strings.Repeat("x", maxInline) + `"`)
	w.reply("Set", `{"key":"a","valueRef":{"scheme":"file","path":"`+path+`"}}`, ok)
	// It is referred to, so a collection leaves it.
	if got, err := w.blobs.Collect(t.Context(), w.store, 0, time.Now().Add(time.Hour)); err != nil || got.Files != 0 {
		t.Errorf("collected %+v, %v", got, err)
	}
	if got := w.ask("Get", `{"key":"a"}`); got.Kind != message.KindReply {
		t.Errorf("got %s", got.Data)
	}
	if got, err := w.blobs.Collect(t.Context(), storetest.NewMemory(), 0, time.Now().Add(time.Hour)); err != nil || got.Files != 1 {
		t.Errorf("collected %+v, %v", got, err)
	}
	w.refuse("Get", `{"key":"a"}`, 500, "Memory backend failure")
}
