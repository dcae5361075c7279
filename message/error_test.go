package message_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kernos/internal/testkit"
	"kernos/message"
)

func TestErrorfMakesAWrappedErrorTheCause(t *testing.T) {
	cause := &message.Error{Code: 404, Message: "Key not found: /keys/master"}
	e := message.Errorf(500, "Encryption of %s failed: %w", "x", cause)
	if e.Code != 500 || e.Message != "Encryption of x failed" || e.Cause != cause {
		t.Errorf("got %+v", e)
	}
	if e.Error() != "Encryption of x failed: Key not found: /keys/master" {
		t.Errorf("the text is %q", e.Error())
	}
	if !errors.Is(e, cause) || errors.Unwrap(e) != error(cause) {
		t.Error("the cause can't be found in the chain")
	}
	if got := string(e.Append(nil)); got != `{"code":500,"message":"Encryption of x failed","cause":{"code":404,"message":"Key not found: /keys/master"}}` {
		t.Errorf("on the wire it is %s", got)
	}
}

func TestErrorfKeepsTheTextOfOtherErrors(t *testing.T) {
	for _, test := range []struct {
		e    *message.Error
		want string
	}{
		{message.Errorf(502, "upstream: %w", io.ErrUnexpectedEOF), "upstream: unexpected EOF"},
		{message.Errorf(502, "upstream: %v", &message.Error{Code: 404, Message: "m"}), "upstream: m"},
		{message.Errorf(400, "100%% of %d", 5), "100% of 5"},
		{message.Errorf(400, "plain"), "plain"},
	} {
		if test.e.Message != test.want || test.e.Cause != nil || errors.Unwrap(test.e) != nil {
			t.Errorf("got %+v, want %q without a cause", test.e, test.want)
		}
	}
}

// canceled is an error type that says what it is only when it is asked.
type canceled struct{}

func (canceled) Error() string        { return "secret" }
func (canceled) Is(target error) bool { return target == context.Canceled }

func TestErrorOfIsTotal(t *testing.T) {
	own := &message.Error{Code: 404, Message: "m", Field: "f"}
	for _, test := range []struct {
		name  string
		err   error
		code  int
		text  string
		known bool
	}{
		{"an error of our own", own, 404, "m", true},
		{"wrapped", fmt.Errorf("secret: %w", own), 404, "m", true},
		{"joined", errors.Join(io.EOF, own), 404, "m", true},
		{"a rejection", &message.Rejection{Err: *own}, 404, "m", true},
		{"the lowest code", &message.Error{Code: 400, Message: "m"}, 400, "m", true},
		{"the highest code", &message.Error{Code: 599, Message: "m"}, 599, "m", true},
		{"a code too low", &message.Error{Code: 399, Message: "m"}, 500, "m", true},
		{"a code too high", &message.Error{Code: 600, Message: "m"}, 500, "m", true},
		{"no code", &message.Error{Message: "m"}, 500, "m", true},
		{"out of time", context.DeadlineExceeded, 504, "Not done in time", true},
		{"out of time, wrapped", fmt.Errorf("secret: %w", context.DeadlineExceeded), 504, "Not done in time", true},
		{"cancelled", context.Canceled, 499, "Cancelled before it was done", true},
		{"cancelled in its own words", canceled{}, 499, "Cancelled before it was done", true},
		{"unknown", errors.New("secret"), 500, "Internal error; the kernel's log has the details", false},
		{"nil", nil, 500, "Internal error; the kernel's log has the details", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, known := message.ErrorOf(test.err)
			if e == nil || e.Code != test.code || e.Message != test.text || known != test.known {
				t.Errorf("got %+v, %v; want %d %q, %v", e, known, test.code, test.text, test.known)
			}
			if strings.Contains(string(e.Append(nil)), "secret") {
				t.Error("the text of a foreign error got out")
			}
		})
	}
	if e, _ := message.ErrorOf(fmt.Errorf("x: %w", own)); e != own {
		t.Error("an error of our own lost its particulars")
	}
}

// A nil *Error in an error is the classic slip of a handler; it must not end the kernel.
func TestErrorOfSurvivesANilPointer(t *testing.T) {
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("it panics: %v", r)
		}
	}()
	var none *message.Error
	if e, _ := message.ErrorOf(none); e == nil || e.Code != 500 {
		t.Errorf("got %+v, want a 500", e)
	}
}

// What we say on the wire, we accept from it: also the causes must have a status.
func TestErrorOfLeavesNoCodeThatParseErrorRefuses(t *testing.T) {
	e, _ := message.ErrorOf(&message.Error{Message: "m", Cause: &message.Error{Message: "made without a code"}})
	if _, err := message.ParseError(e.Append(nil)); err != nil {
		t.Errorf("%s: %v", e.Append(nil), err)
	}
}

func TestErrorTextIsSafeToPrint(t *testing.T) {
	e := &message.Error{Code: 400, Message: "a\x1b[31mb\x00c\u009bd\x7fe\nf\tg\xffh\rié\uFFFD", Cause: &message.Error{Code: 400, Message: "\x1b"}}
	want := `{"code":400,"message":"a [31mb c d e\nf\tg?h ié?","cause":{"code":400,"message":" "}}`
	if got := string(e.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, err := json.Marshal(e)
	if err != nil || string(got) != want {
		t.Errorf("json.Marshal: %s, %v", got, err)
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	chain := func(depth int, text string) *message.Error {
		var e *message.Error
		for range depth {
			e = &message.Error{Code: 500, Message: text, Cause: e}
		}
		return e
	}
	lengths := func(e *message.Error) (n []int) {
		parsed, err := message.ParseError(e.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		for ; parsed != nil; parsed = parsed.Cause {
			if !utf8.ValidString(parsed.Message) {
				t.Errorf("the cut went through a character: %q", parsed.Message)
			}
			n = append(n, len(parsed.Message))
		}
		return n
	}
	for _, test := range []struct {
		e    *message.Error
		want []int
	}{
		{chain(1, strings.Repeat("x", 2000)), []int{2000}},
		{chain(1, strings.Repeat("x", 2001)), []int{2000}},
		{chain(2, strings.Repeat("x", 1000)), []int{1000, 1000}},
		{chain(2, strings.Repeat("x", 5000)), []int{2000, 1000}},
		{chain(4, "x"), []int{1, 1, 1, 1}},
		{chain(5, "x"), []int{1, 1, 1, 1}},
		{chain(1, strings.Repeat("é", 2000)), []int{1999}}, // 998 letters and the sign
		{chain(1, "xx"+strings.Repeat("日", 2000)), []int{2 + 3*665 + 3}},
	} {
		if got := lengths(test.e); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%.10q…: the texts have %v bytes, want %v", test.e.Message, got, test.want)
		}
	}
	long := chain(5, strings.Repeat("x", 5000))
	parsed, err := message.ParseError(long.AppendWhole(nil))
	if err != nil || !reflect.DeepEqual(parsed, long) {
		t.Errorf("AppendWhole cut something: %v", err)
	}
}

func TestClipCutsAtACharacterAndShowsIt(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"", 5, ""}, {"abcde", 5, "abcde"}, {"abcdef", 5, "ab…"}, {"ééé", 6, "ééé"}, {"éééé", 6, "é…"}, {"éééé", 7, "éé…"}, {"日日", 5, "…"}, {"abcd", 3, "…"},
	} {
		if got := message.Clip(test.text, test.most); got != test.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

func TestParseErrorReadsTheErrorSchema(t *testing.T) {
	got, err := message.ParseError(json.RawMessage(`{ "cause" : {"code":599,"message":"é\n","cause":{"code":400,"message":""}}, "message":"m", "c\u006fde" : 500 }`))
	want := &message.Error{Code: 500, Message: "m", Cause: &message.Error{Code: 599, Message: "é\n", Cause: &message.Error{Code: 400}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, test := range []struct{ data, want string }{
		{``, "data of an error must be an object with code and message"},
		{`null`, "data of an error must be an object with code and message"},
		{`[]`, "data of an error must be an object with code and message"},
		{`"m"`, "data of an error must be an object with code and message"},
		{`{}`, "data.code is missing"},
		{`{"message":"m"}`, "data.code is missing"},
		{`{"code":404}`, "data.message is missing"},
		{`{"code":399,"message":"m"}`, "data.code must be an HTTP status from 400 to 599, got 399"},
		{`{"code":600,"message":"m"}`, "data.code must be an HTTP status from 400 to 599, got 600"},
		{`{"code":-404,"message":"m"}`, "data.code must be an HTTP status from 400 to 599, got -404"},
		{`{"code":404.5,"message":"m"}`, "data.code must be an HTTP status from 400 to 599, got 404.5"},
		{`{"code":"NOT_FOUND","message":"m"}`, `data.code must be an HTTP status from 400 to 599, got "NOT_FOUND"`},
		{`{"code":"404","message":"m"}`, `data.code must be an HTTP status from 400 to 599, got "404"`},
		{`{"code":404,"message":null}`, "data.message must be a string, got null"},
		{`{"code":404,"message":"m","details":{}}`, `data has an unknown field: "details" (an error has code, message and cause)`},
		{`{"code":404,"message":"m","cause":null}`, "data.cause of an error must be an object with code and message"},
		{`{"code":404,"message":"m","cause":{"code":1,"message":"m"}}`, "data.cause.code must be an HTTP status from 400 to 599, got 1"},
		{`{"code":404,"message":"m","cause":{"code":500,"message":"m","cause":{}}}`, "data.cause.cause.code is missing"},
	} {
		if e, err := message.ParseError(json.RawMessage(test.data)); err == nil || err.Error() != test.want {
			t.Errorf("%s\n got %+v, %v\nwant %s", test.data, e, err, test.want)
		}
	}
}

// A chain of causes must not be read again and again for each of its links.
func TestLongChainsOfCausesAreRefusedQuickly(t *testing.T) {
	deep := strings.Repeat(`{"code":500,"message":"m","cause":`, 900)
	data := deep + `[` + strings.TrimSuffix(strings.Repeat(`"",`, 300_000), ",") + `]` + strings.Repeat("}", 900)
	// Against a plain walk over the same text.
	cost := func(f func()) time.Duration {
		return testkit.Cost(t, func() {
			for range 8 {
				f()
			}
		})
	}
	walk := cost(func() {
		if !json.Valid([]byte(data)) {
			t.Fatal("not JSON")
		}
	})
	took := cost(func() {
		if _, err := message.ParseError([]byte(data)); err == nil {
			t.Error("900 causes are accepted")
		}
	})
	if took > 60*walk {
		t.Errorf("it took %v, and a walk over it %v", took, walk)
	}
}
