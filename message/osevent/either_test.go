package osevent_test

import (
	"errors"
	"strings"
	"testing"

	"kernos/message"
	"kernos/message/osevent"
)

func TestEitherReadsEachLineInItsDialect(t *testing.T) {
	const metadata = `"metadata":{"id":"a","timestamp":1}`
	for _, test := range []struct {
		name    string
		line    string
		dialect *message.Dialect
		want    string // the error, "" for none
	}{
		{"current", `{"kind":"query","type":"Ping","data":1,` + metadata + `}`, message.Current, ""},
		{"older", `{"type":"query","name":"Ping","payload":1,` + metadata + `}`, osevent.Dialect, ""},
		{"current, incomplete", `{"kind":"query","type":"Ping",` + metadata + `}`, message.Current, "Missing required field: data"},
		{"older, incomplete", `{"type":"query","name":"Ping",` + metadata + `}`, osevent.Dialect, "Missing required field: payload"},
		{"older, not JSON", `{"name":"Ping",}`, osevent.Dialect, "Invalid JSON: expected a member name in double quotes, got '}' at position 15"},
		{"not JSON", `{"type":"Ping",}`, message.Current, "Invalid JSON: expected a member name in double quotes, got '}' at position 15"},
		{"of both", `{"kind":"query","name":"Ping","payload":1,` + metadata + `}`, message.Current, "Missing required fields: type, data; unknown field \"name\" (did you mean type?); unknown field \"payload\" (did you mean data?)"},
		{"of none", `{}`, message.Current, "Missing required fields: kind, type, data, metadata"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var m message.Message
			dialect, err := osevent.NewEither(false, nil).Decode([]byte(test.line), &m)
			if dialect != test.dialect {
				t.Errorf("read as version %s", dialect.Version)
			}
			if test.want == "" {
				if err != nil || m.Kind != message.KindQuery || m.Type != message.Ping || string(m.Data) != "1" || m.Metadata.ID != "a" {
					t.Errorf("got %+v, %v", m, err)
				}
				return
			}
			var r *message.Rejection
			if !errors.As(err, &r) || err.Error() != test.want || string(r.Line) != test.line {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestEitherIsLenientInBothDialectsOrInNone(t *testing.T) {
	for _, line := range []string{`{"kind":"query","type":"Ping","data":1}`, `{"type":"query","name":"Ping","payload":1}`} {
		if _, err := osevent.NewEither(true, nil).Decode([]byte(line), new(message.Message)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if _, err := osevent.NewEither(false, nil).Decode([]byte(line), new(message.Message)); err == nil {
			t.Errorf("%s is accepted without metadata", line)
		}
	}
}

func TestEitherDoesNotTranslate(t *testing.T) {
	line := oldError(`{"message":"m","code":"NOT_FOUND"}`)
	var m message.Message
	_, err := osevent.NewEither(false, nil).Decode([]byte(line), &m)
	if err != nil || string(m.Data) != `{"message":"m","code":"NOT_FOUND"}` {
		t.Errorf("got %s, %v", m.Data, err)
	}
}

func TestOnlyLinesOfTheOlderDialectMayGrow(t *testing.T) {
	long := strings.Repeat("x", message.MaxLine)
	for _, test := range []struct {
		line string
		want int
	}{
		{`{"type":"query","name":"Ping","payload":"` + long, 1 << 20},
		{`{"payload":"` + long, 1 << 20},
		{`{"kind":"query","type":"Ping","data":"` + long, message.MaxLine},
		{`{"name":"Ping","data":"` + long, message.MaxLine},
		{`{"metadata":{"name":"` + long, message.MaxLine},
		{long, message.MaxLine},
	} {
		if got := osevent.NewEither(false, nil).Extend([]byte(test.line)[:message.MaxLine]); got != test.want {
			t.Errorf("%.40s…: %d, want %d", test.line, got, test.want)
		}
	}
}

// What shows no dialect is of the older one after lines of the older one only.
func TestALineWithoutADialectIsOfTheOneThatIsSpoken(t *testing.T) {
	const older, current, none = `{"name":"Ping"}`, `{"kind":"query"}`, `not json`
	for _, test := range []struct {
		lines []string
		want  *message.Dialect
	}{
		{[]string{none}, message.Current},
		{[]string{older, none}, osevent.Dialect},
		{[]string{none, older, `[]`}, osevent.Dialect},
		{[]string{older, current, none}, message.Current},
		{[]string{older, current, older, none}, message.Current},
	} {
		e := osevent.NewEither(false, nil)
		var got *message.Dialect
		for _, line := range test.lines {
			got, _ = e.Decode([]byte(line), new(message.Message))
		}
		if got != test.want || e.Extend([]byte(none)) != test.want.MaxLine {
			t.Errorf("%q: the last line is read as version %s", test.lines, got.Version)
		}
	}
}
