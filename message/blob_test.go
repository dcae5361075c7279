package message_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

func TestBlobPointersOfEachScheme(t *testing.T) {
	for _, test := range []struct {
		data string
		want string // the normal form, "" for the same
		uri  string
	}{
		{`{"scheme":"file","path":"/tmp/response-abc123"}`, ``, "file:///tmp/response-abc123"},
		{`{"scheme":"file","path":"/"}`, ``, "file:///"},
		{`{"scheme":"file","path":"/a","fragment":"L10"}`, ``, "file:///a#L10"},
		{`{"scheme":"https","authority":"example.com","path":"/"}`, ``, "https://example.com/"},
		{`{"scheme":"https","authority":"example.com","path":"/a/b","query":"q=1&r=2","fragment":"top"}`, ``, "https://example.com/a/b?q=1&r=2#top"},
		{`{"scheme":"https","authority":"example.com:8443","path":"/"}`, ``, "https://example.com:8443/"},
		{`{"scheme":"https","authority":"[2001:db8::1]","path":"/"}`, ``, "https://[2001:db8::1]/"},
		{`{"scheme":"https","authority":"[::1]:8443","path":"/"}`, ``, "https://[::1]:8443/"},
		{`{"scheme":"https","authority":"127.0.0.1","path":"/"}`, ``, "https://127.0.0.1/"},
		{`{"scheme":"data","path":"text/plain,Hello%20world"}`, ``, "data:text/plain,Hello%20world"},
		{`{"scheme":"data","path":"text/markdown;base64,SGk="}`, ``, "data:text/markdown;base64,SGk="},
		{`{"scheme":"data","path":"text/plain,"}`, ``, "data:text/plain,"},

		// The port of https says nothing, and hosts have no case.
		{`{"scheme":"https","authority":"example.com:443","path":"/"}`, `{"scheme":"https","authority":"example.com","path":"/"}`, "https://example.com/"},
		{`{"scheme":"https","authority":"[::1]:443","path":"/"}`, `{"scheme":"https","authority":"[::1]","path":"/"}`, "https://[::1]/"},
		{`{"scheme":"https","authority":"Example.COM:443","path":"/A"}`, `{"scheme":"https","authority":"example.com","path":"/A"}`, "https://example.com/A"},
		// Any order and layout is read, one is written.
		{" { \"fragment\":\"f\", \"query\":\"q\", \"path\":\"\\/p\", \"authority\":\"h\", \"sch\\u0065me\":\"https\" } ",
			`{"scheme":"https","authority":"h","path":"/p","query":"q","fragment":"f"}`, "https://h/p?q#f"},
	} {
		p, err := message.ParseBlobPointer(json.RawMessage(test.data))
		if err != nil {
			t.Errorf("%s: %v", test.data, err)
			continue
		}
		want := test.want
		if want == "" {
			want = test.data
		}
		if got := string(p.Append(nil)); got != want {
			t.Errorf("%s\n got %s\nwant %s", test.data, got, want)
		}
		if got := p.String(); got != test.uri {
			t.Errorf("%s: the URI is %s, want %s", test.data, got, test.uri)
		}
	}
}

func TestBlobPointersThatBreakARuleAreInvalidInput(t *testing.T) {
	const path = `the path of a data pointer is a media type, a comma and the data, such as text/plain,Hello%20world`
	for _, test := range []struct{ data, want string }{
		{``, "it is not JSON: the text ends, expected a value at position 0"},
		{`{"scheme":"file","path":"/a"} x`, "it is not JSON: expected nothing after the value, got 'x' at position 30"},
		{`{"scheme":"file","scheme":"file","path":"/a"}`, `it is not JSON: repeated member name "scheme" at position 17`},
		{`null`, "it must be an object, got null"},
		{`"file:///a"`, `it must be an object, got the string "file:///a"`},
		{` []`, "it must be an object, got an array"},
		{`{}`, "scheme is missing (file, https or data)"},
		{`{"path":"/a"}`, "scheme is missing (file, https or data)"},
		{`{"scheme":"file"}`, "path is missing"},
		{`{"scheme":"https","authority":"h"}`, "path is missing"},
		{`{"scheme":"data"}`, "path is missing"},
		{`{"scheme":"http","authority":"h","path":"/"}`, `scheme must be file, https or data, got "http"`},
		{`{"scheme":"FILE","path":"/"}`, `scheme must be file, https or data, got "FILE"`},
		{`{"scheme":"file\u0000","path":"/"}`, `scheme must be file, https or data, got "file\x00"`},
		{`{"scheme":1,"path":"/"}`, `"scheme" must be a string, got the number 1`},
		{`{"scheme":"file","path":null}`, `"path" must be a string, got null`},
		{`{"scheme":"file","path":""}`, `"path" is empty; leave it out`},
		{`{"scheme":"file","path":"/a","query":""}`, `"query" is empty; leave it out`},
		{`{"scheme":"file","path":"/a","host":"h"}`, `unknown field "host" (it may have scheme, authority, path, query and fragment)`},
		{`{"Scheme":"file","path":"/a"}`, `unknown field "Scheme" (it may have scheme, authority, path, query and fragment)`},

		{`{"scheme":"file","path":"a/b"}`, `path must start with a slash, got "a/b"`},
		{`{"scheme":"file","authority":"h","path":"/a"}`, "a file pointer has no authority"},
		{`{"scheme":"file","path":"/a","query":"q"}`, "a file pointer has no query"},
		{`{"scheme":"file","path":"/a\u0000b"}`, "path has the control character U+0000"},
		{`{"scheme":"file","path":"/a","fragment":"\n"}`, "fragment has the control character U+000A"},
		{`{"scheme":"https","authority":"h\r","path":"/a"}`, "authority has the control character U+000D"},
		{`{"scheme":"https","authority":"h","path":"/a","query":"\u007f"}`, "query has the control character U+007F"},

		{`{"scheme":"https","path":"/a"}`, "an https pointer needs an authority, such as example.com"},
		{`{"scheme":"https","authority":"h","path":"a"}`, `path must start with a slash, got "a"`},
		{`{"scheme":"https","authority":"user@h","path":"/"}`, `authority must be a host with an optional port, without user names; it has '@'`},
		{`{"scheme":"https","authority":"h/x","path":"/"}`, `authority must be a host with an optional port, without user names; it has '/'`},
		{`{"scheme":"https","authority":"h x","path":"/"}`, `authority must be a host with an optional port, without user names; it has ' '`},
		{`{"scheme":"https","authority":"h?x","path":"/"}`, `authority must be a host with an optional port, without user names; it has '?'`},
		{`{"scheme":"https","authority":"h#x","path":"/"}`, `authority must be a host with an optional port, without user names; it has '#'`},
		{`{"scheme":"https","authority":"bücher.example","path":"/"}`, `authority must be a host with an optional port, without user names; it has 'ü'`},
		{`{"scheme":"https","authority":"user:pw@h:1","path":"/"}`, `authority must be a host with an optional port, without user names; it has ':'`},
		{`{"scheme":"https","authority":"h:","path":"/"}`, `authority has the invalid port ""`},
		{`{"scheme":"https","authority":"h:0","path":"/"}`, `authority has the invalid port "0"`},
		{`{"scheme":"https","authority":"h:65536","path":"/"}`, `authority has the invalid port "65536"`},
		{`{"scheme":"https","authority":"h:x","path":"/"}`, `authority has the invalid port "x"`},
		{`{"scheme":"https","authority":"h:+1","path":"/"}`, `authority has the invalid port "+1"`},
		{`{"scheme":"https","authority":":443","path":"/"}`, "authority has no host"},
		{`{"scheme":"https","authority":"..","path":"/"}`, "authority has no host"},
		{`{"scheme":"https","authority":"[]","path":"/"}`, "authority has an address in brackets that is not IPv6"},
		{`{"scheme":"https","authority":"[127.0.0.1]","path":"/"}`, "authority has an address in brackets that is not IPv6"},
		{`{"scheme":"https","authority":"[fe80::1%25eth0]","path":"/"}`, "authority has an address in brackets that is not IPv6"},
		{`{"scheme":"https","authority":"[::1]x:1","path":"/"}`, "authority has an address in brackets that is not IPv6"},

		{`{"scheme":"data","authority":"h","path":"text/plain,a"}`, "a data pointer has no authority"},
		{`{"scheme":"data","path":"text/plain,a","query":"q"}`, "a data pointer has no query"},
		{`{"scheme":"data","path":"text/plain"}`, path},
		{`{"scheme":"data","path":"text,a"}`, `"text" is not a media type`},
		{`{"scheme":"data","path":"text/plain;base64,a"}`, "the payload is not base64"},
		{`{"scheme":"data","path":"text/plain;base64,SGk"}`, "the payload is not base64"},
		{`{"scheme":"data","path":"text/plain;base64,S Gk="}`, "the payload is not base64"},
		{`{"scheme":"data","path":"text/plain,50%"}`, "the payload has a percent sign that starts no escape; write %25"},
		{`{"scheme":"data","path":"text/plain,` + strings.Repeat("x", 4097) + `"}`, "a data pointer holds at most 4096 bytes, got 4097; use a file or https pointer"},
	} {
		p, err := message.ParseBlobPointer(json.RawMessage(test.data))
		var e *message.Error
		if !errors.As(err, &e) || e.Code != 422 || e.Message != "Invalid BlobPointer: "+test.want || p != (message.BlobPointer{}) {
			t.Errorf("%.100s\n got %v, %v\nwant %s", test.data, p, err, test.want)
		}
	}
}

// One place has one name: a port is the same number however many zeros it starts with.
func TestBlobPointerHasOneNormalPort(t *testing.T) {
	for _, port := range []string{"443", "0443", "00443"} {
		p, err := message.ParseBlobPointer(json.RawMessage(`{"scheme":"https","authority":"h:` + port + `","path":"/"}`))
		if err == nil && p.Authority != "h" {
			t.Errorf("port %s: the authority is %s, want h", port, p.Authority)
		}
	}
}

func TestDataPointersHoldTheirBytes(t *testing.T) {
	encode := func(n int) string {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xff", n)))
	}
	for _, test := range []struct{ path, mediaType, data string }{
		{"text/plain,Hello%20world", "text/plain", "Hello world"},
		{"text/plain,a,b+c", "text/plain", "a,b+c"},
		{"text/plain;charset=utf-8,%C3%A9", "text/plain;charset=utf-8", "é"},
		{"text/markdown;base64,SGk=", "text/markdown", "Hi"},
		{"application/octet-stream;base64,AP8=", "application/octet-stream", "\x00\xff"},
		{",a", "text/plain;charset=US-ASCII", "a"},
		{";base64,YQ==", "text/plain;charset=US-ASCII", "a"},
		{"text/plain," + strings.Repeat("x", 4096), "text/plain", strings.Repeat("x", 4096)},
		{"text/plain," + strings.Repeat("%20", 4096), "text/plain", strings.Repeat(" ", 4096)}, // decoded bytes count
		{"a/b;base64," + encode(4096), "a/b", strings.Repeat("\xff", 4096)},
	} {
		p, err := message.ParseBlobPointer(json.RawMessage(fmt.Sprintf(`{"scheme":"data","path":%q}`, test.path)))
		if err != nil {
			t.Errorf("%.60s: %v", test.path, err)
			continue
		}
		mediaType, data, err := p.Inline()
		if err != nil || mediaType != test.mediaType || string(data) != test.data {
			t.Errorf("%.60s: got %s %.20q, %v", test.path, mediaType, data, err)
		}
	}
	if _, _, err := message.FileBlob("/a,b").Inline(); err == nil {
		t.Error("a file pointer holds no bytes itself")
	}
}

func TestBlobPointersPassThroughEncodingJSON(t *testing.T) {
	type reply struct {
		BodyRef message.BlobPointer `json:"bodyRef"`
	}
	text, err := json.Marshal(reply{message.FileBlob("/tmp/a")})
	if err != nil || string(text) != `{"bodyRef":{"scheme":"file","path":"/tmp/a"}}` {
		t.Fatalf("got %s, %v", text, err)
	}
	var back reply
	if err := json.Unmarshal(text, &back); err != nil || back.BodyRef != message.FileBlob("/tmp/a") {
		t.Errorf("got %+v, %v", back, err)
	}
	kept := back
	if err := json.Unmarshal([]byte(`{"bodyRef":{"scheme":"gopher","path":"/"}}`), &back); err == nil || back != kept {
		t.Errorf("a bad pointer gives %v and leaves %+v", err, back)
	}
}
