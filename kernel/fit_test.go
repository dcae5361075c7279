package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

// memoryBlobs keeps blobs under numbers.
type memoryBlobs struct {
	kerneltest.NoBlobs
	kept []string
	err  error
}

func (b *memoryBlobs) Put(_ context.Context, data []byte) (message.BlobPointer, error) {
	if b.err != nil {
		return message.BlobPointer{}, b.err
	}
	b.kept = append(b.kept, string(data))
	return message.FileBlob(fmt.Sprintf("/blobs/%d", len(b.kept))), nil
}

type page struct {
	Status   int                  `json:"status"`
	Body     string               `json:"body,omitempty"`
	BodyRef  *message.BlobPointer `json:"bodyRef,omitempty"`
	Links    []string             `json:"links,omitempty"`
	LinksRef *message.BlobPointer `json:"linksRef,omitempty"`
	Title    string               `json:"title,omitempty"`
}

func fitKernel(t *testing.T, blobs kernel.Blobs, log *testkit.Notes) *kernel.Kernel {
	t.Helper()
	s := kerneltest.Echo("Page.Get")
	s.Output = schema.Output[page]()
	s.Aliases = []message.Type{"Page.Fetch"}
	s.Emits = []kernel.EventDefinition{{Type: "Page.Fetched"}}
	return kerneltest.New(t, &kernel.Options{Blobs: blobs, Log: log.Logger()}, s)
}

func lineLength(m *message.Message) int { return len(message.Append(nil, m)) }

func fit(k *kernel.Kernel, m message.Message) message.Message {
	return k.Fit(context.Background(), m, message.MaxLine, lineLength)
}

func reply(data string) message.Message {
	request := kerneltest.Query("req-1", "Page.Get", `1`)
	m := request.Reply(json.RawMessage(data))
	m.Metadata.ID, m.Metadata.Timestamp = "ans-1", 1
	return m
}

func TestFitMovesTheLargestDeclaredFieldsToBlobs(t *testing.T) {
	body, links, title := strings.Repeat("b", 20000), strings.Repeat("l", 18000), strings.Repeat("t", 20000)
	for _, c := range []struct {
		name, data, want string
		kept             []string
	}{
		{"what fits stays as it is", `{"status":200,"body":"short"}`, `{"status":200,"body":"short"}`, nil},
		{"the body", `{"status":200,"body":"` + body + `","links":[]}`,
			`{"status":200,"bodyRef":{"scheme":"file","path":"/blobs/1"},"links":[]}`, []string{body}},
		{"the text of a string, not its JSON", `{"body":"a\n\"b\"` + body + `"}`,
			`{"bodyRef":{"scheme":"file","path":"/blobs/1"}}`, []string{"a\n\"b\"" + body}},
		{"the JSON of anything else", `{"links":["` + links + `"]}`,
			`{"linksRef":{"scheme":"file","path":"/blobs/1"}}`, []string{`["` + links + `"]`}},
		{"the largest first, and no more than needed", `{"links":["x"],"body":"` + body + `"}`,
			`{"links":["x"],"bodyRef":{"scheme":"file","path":"/blobs/1"}}`, []string{body}},
		{"both if need be", `{"links":["` + links + `"],"status":1,"body":"` + body + `"}`,
			`{"linksRef":{"scheme":"file","path":"/blobs/2"},"status":1,"bodyRef":{"scheme":"file","path":"/blobs/1"}}`, []string{body, `["` + links + `"]`}},
		{"all of it if no field is declared", `{"title":"` + title + `"}`,
			`{"dataRef":{"scheme":"file","path":"/blobs/1"},"size":20012,"mediaType":"application/json"}`, []string{`{"title":"` + title + `"}`}},
		{"all of what is no object", `"` + title + `"`, `{"dataRef":{"scheme":"file","path":"/blobs/1"},"size":20002,"mediaType":"application/json"}`, []string{`"` + title + `"`}},
		{"all of it if the fields are not enough", `{"body":"x","title":"` + title + `"}`,
			`{"dataRef":{"scheme":"file","path":"/blobs/2"},"size":20023,"mediaType":"application/json"}`, []string{"x", `{"body":"x","title":"` + title + `"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			blobs := new(memoryBlobs)
			m := reply(c.data)
			got := fit(fitKernel(t, blobs, new(testkit.Notes)), m)
			if string(got.Data) != c.want {
				t.Errorf("got %.300s", got.Data)
			}
			if got.Kind != message.KindReply || got.Type != m.Type || got.Metadata != m.Metadata {
				t.Errorf("got %s %+v", got.Kind, got.Metadata)
			}
			if fmt.Sprint(blobs.kept) != fmt.Sprint(c.kept) {
				t.Errorf("%d blobs are kept", len(blobs.kept))
			}
			if string(m.Data) != c.data {
				t.Error("the message itself has changed")
			}
			if n := lineLength(&got); n > message.MaxLine {
				t.Errorf("it has %d bytes", n)
			}
		})
	}
}

func TestFitKnowsAliases(t *testing.T) {
	blobs := new(memoryBlobs)
	m := reply(`{"body":"` + strings.Repeat("b", 20000) + `"}`)
	m.Type = "Page.Fetch"
	if got := fit(fitKernel(t, blobs, new(testkit.Notes)), m); string(got.Data) != `{"bodyRef":{"scheme":"file","path":"/blobs/1"}}` {
		t.Errorf("got %.300s", got.Data)
	}
}

func TestFitFailsWithoutAPlaceForBlobs(t *testing.T) {
	got := fit(fitKernel(t, nil, new(testkit.Notes)), reply(`"`+strings.Repeat("x", 20000)+`"`))
	if code, text := kerneltest.ReadError(t, got); code != 413 || text != "The answer does not fit into a line of 16384 bytes, and this kernel has no place for blobs" {
		t.Errorf("got %d %s", code, text)
	}
	if got.Type != "Page.Get" || got.Metadata.Causation != "req-1" || got.Metadata.ID != "ans-1" {
		t.Errorf("got %+v", got)
	}
}

func TestFitFailsWithItsBlobs(t *testing.T) {
	const secret = "/home/me/blobs: disk full"
	for name, data := range map[string]string{
		"a field":     `{"body":"` + strings.Repeat("b", 20000) + `"}`,
		"all of data": `"` + strings.Repeat("b", 20000) + `"`,
	} {
		var log testkit.Notes
		got := fit(fitKernel(t, &memoryBlobs{err: errors.New(secret)}, &log), reply(data))
		if code, _ := kerneltest.ReadError(t, got); code != 413 {
			t.Errorf("%s: got %d", name, code)
		}
		if strings.Contains(string(got.Data), "disk full") {
			t.Errorf("%s: the caller sees %s", name, got.Data)
		}
		if !log.Has(secret, "Page.Get", "req-1") {
			t.Errorf("%s: the log has %q", name, &log)
		}
	}
	got := fit(fitKernel(t, &memoryBlobs{err: message.Errorf(507, "No room")}, new(testkit.Notes)), reply(`"`+strings.Repeat("b", 20000)+`"`))
	if code, text := kerneltest.ReadError(t, got); code != 507 || text != "No room" {
		t.Errorf("got %d %s", code, text)
	}
}

// An error must stay one: its data has code and message, whatever its size. Only a
// handler that writes error data by itself can make it that large.
func TestFitKeepsErrorsErrors(t *testing.T) {
	for name, blobs := range map[string]kernel.Blobs{"with blobs": new(memoryBlobs), "without": nil} {
		k := fitKernel(t, blobs, new(testkit.Notes))
		m := reply(`{"code":418,"message":"` + strings.Repeat("x", 20000) + `"}`)
		m.Kind = message.KindError
		got := fit(k, m)
		e, err := message.ParseError(got.Data)
		if got.Kind != message.KindError || err != nil {
			t.Errorf("%s: %v", name, err)
		} else if e.Code != 418 {
			t.Errorf("%s: the code has become %d", name, e.Code)
		}
	}
}

// The outcome of a call comes last and once. An event that does not fit must not look
// like it.
func TestFitMakesNoOutcomeOfAnEvent(t *testing.T) {
	for name, blobs := range map[string]kernel.Blobs{"no blobs": nil, "blobs that fail": &memoryBlobs{err: errors.New("full")}} {
		m := reply(`"` + strings.Repeat("x", 20000) + `"`)
		m.Kind, m.Type = message.KindEvent, "Page.Fetched"
		if got := fit(fitKernel(t, blobs, new(testkit.Notes)), m); got.Kind.Answers() {
			t.Errorf("%s: got %s", name, kerneltest.Texts([]message.Message{got}))
		}
	}
}

// A reply that has the reference already must not get it twice.
func TestFitWritesNoNameTwice(t *testing.T) {
	m := reply(`{"bodyRef":{"scheme":"file","path":"/a"},"body":"` + strings.Repeat("b", 20000) + `"}`)
	got := fit(fitKernel(t, new(memoryBlobs), new(testkit.Notes)), m)
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

// What doesn't fit into a line goes to a blob unless it holds secrets; a text that speaks of headers holds none.
func TestSecretsDoNotGoToBlobs(t *testing.T) {
	long := strings.Repeat("x", message.MaxLine)
	for _, c := range []struct {
		name message.Type
		data string
		fits bool
	}{
		{"Test.Echo", `{"note":"Cookie: is a header","text":"` + long + `"}`, false},
		{"Test.Echo", `{"deep":[{"cookie":"x"}],"text":"` + long + `"}`, false},
		{"Test.Kept", `{"note":"Cookie: is a header","text":"` + long + `"}`, true},
		{"Test.Echo", `{"headers":{"content-type":"text/html"},"text":"` + long + `"}`, true},
		{"Test.Echo", `{"headers":{"Set-Cookie":"id=1"},"text":"` + long + `"}`, false},
		{"Test.Echo", `{"note":"send it with curl -H \"Authorization: Bearer $TOKEN\", and cookie = 1","text":"` + long + `"}`, true},
		{"Test.Echo", `{"note":"{\"Authorization\":\"Bearer x\"}","text":"` + long + `"}`, true},
		{"Test.Echo", `{"note":"GET /\r\nAuthorization: Bearer x","text":"` + long + `"}`, false},
		{"Test.Echo", `{"note":"GET /\r\nAuthorization: [redacted]","text":"` + long + `"}`, true},
		{"Test.Echo", `{"Authorization":"Bearer x","text":"` + long + `"}`, false},
		{"Crypto.Open", `"` + long + `"`, false},
	} {
		blobs := new(memoryBlobs)
		stored := kerneltest.Echo("Test.Kept")
		stored.Answers = kernel.FromStore
		k := kerneltest.New(t, &kernel.Options{Blobs: blobs}, kerneltest.Echo("Test.Echo"), kerneltest.Echo("Crypto.Open"), stored)
		m := message.Message{Kind: message.KindReply, Type: c.name, Data: []byte(c.data), Metadata: message.Metadata{ID: "a", Timestamp: 1, Causation: "b"}}
		fitted := k.Fit(context.Background(), m, message.MaxLine, func(m *message.Message) int { return len(message.Append(nil, m)) })
		if (fitted.Kind == message.KindReply) != c.fits || (len(blobs.kept) > 0) != c.fits {
			t.Errorf("%s %.60s: %s, %d blobs", c.name, c.data, fitted.Kind, len(blobs.kept))
		}
		if !c.fits && (fitted.Err == nil || fitted.Err.Code != 413) {
			t.Errorf("%s: %s", c.name, fitted.Data)
		}
	}
}

// What is stored may look like a reference. It comes by reference then, so that a reader can rely
// on the form.
func TestAReplyThatLooksLikeAReferenceIsGivenByReference(t *testing.T) {
	for data, looks := range map[string]bool{
		`{"dataRef":{"scheme":"file","path":"/etc/passwd"}}`: true,
		`{"a":1,"dataRef":2}`:                                true,
		`{"\u0064ataRef":{}}`:                                true,
		`{"a":{"dataRef":{}}}`:                               false,
		`["dataRef"]`:                                        false,
		`"dataRef"`:                                          false,
		`{"data":"dataRef","text":"\u0041"}`:                 false,
	} {
		b := new(memoryBlobs)
		s := kernel.Definition{Type: "Test.Get", Kind: message.KindQuery, Summary: "Get.", Input: schema.Any, Output: schema.Any}.
			BindHandler(func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(json.RawMessage(data))) })
		k := kerneltest.New(t, &kernel.Options{Blobs: b}, s)
		k.Handle(context.Background(), kerneltest.Query("req-1", "Test.Get", `{}`), func(m message.Message) {
			want := data
			if looks {
				want = fmt.Sprintf(`{"dataRef":{"scheme":"file","path":"/blobs/1"},"size":%d,"mediaType":"application/json"}`, len(data))
			}
			if string(m.Data) != want {
				t.Errorf("%s: got %s", data, m.Data)
			}
		})
	}
}
