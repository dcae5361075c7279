package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func TestTypedSyscallsTakeNumbersInEveryNotation(t *testing.T) {
	type numbers struct {
		I   int     `json:"i,omitempty"`
		I8  int8    `json:"i8,omitempty"`
		I16 int16   `json:"i16,omitempty"`
		I32 int32   `json:"i32,omitempty"`
		I64 int64   `json:"i64,omitempty"`
		U   uint    `json:"u,omitempty"`
		U8  uint8   `json:"u8,omitempty"`
		U16 uint16  `json:"u16,omitempty"`
		U32 uint32  `json:"u32,omitempty"`
		U64 uint64  `json:"u64,omitempty"`
		F   float64 `json:"f,omitempty"`
		L   []int   `json:"l,omitempty"`
		P   *int    `json:"p,omitempty"`
	}
	k := kerneltest.New(t, nil, kernel.Query(kernel.Definition{Type: "Number.Read", Summary: "Read numbers."},
		func(_ context.Context, in numbers) (string, error) {
			p := 0
			if in.P != nil {
				p = *in.P
			}
			return fmt.Sprint(in.I, in.I8, in.I16, in.I32, in.I64, in.U, in.U8, in.U16, in.U32, in.U64, in.F, in.L, p), nil
		}))
	for _, c := range []struct{ data, want string }{
		{`{"i":7}`, `7 0 0 0 0 0 0 0 0 0 0 [] 0`},
		{`{"i":1.0,"i8":-1.28e2,"i16":1e2,"i32":2.0,"i64":3e0}`, `1 -128 100 2 3 0 0 0 0 0 0 [] 0`},
		{`{"u":1.0,"u8":2.55e2,"u16":1e2,"u32":40e-1,"u64":5.0}`, `0 0 0 0 0 1 255 100 4 5 0 [] 0`},
		{`{"i":9007199254740991,"i64":-9007199254740991.0}`, `9007199254740991 0 0 0 -9007199254740991 0 0 0 0 0 0 [] 0`},
		{`{"l":[1,1.0,1e1],"p":1e2}`, `0 0 0 0 0 0 0 0 0 0 0 [1 1 10] 100`},
		{`{"f":1.5}`, `0 0 0 0 0 0 0 0 0 0 1.5 [] 0`},
		{`{"f":1e400}`, `0 0 0 0 0 0 0 0 0 0 1.7976931348623157e+308 [] 0`},
		{`{"f":-1e400}`, `0 0 0 0 0 0 0 0 0 0 -1.7976931348623157e+308 [] 0`},
		{`{"f":1e-400}`, `0 0 0 0 0 0 0 0 0 0 0 [] 0`},
	} {
		a := kerneltest.Answer(t, k, kerneltest.Query("1", "Number.Read", c.data))
		if got := string(a.Data); got != `"`+c.want+`"` {
			t.Errorf("%s: got %s", c.data, got)
		}
	}
	for _, data := range []string{`{"i":1.5}`, `{"i8":128}`, `{"u":-1}`, `{"i":9007199254740992}`, `{"i":1e400}`, `{"f":"1"}`} {
		if code, _ := kerneltest.Failure(t, k, kerneltest.Query("1", "Number.Read", data)); code != 422 {
			t.Errorf("%s: got %d", data, code)
		}
	}
}

// What the derived schema accepts, the Go type must be able to hold: the schema is
// the contract that callers see.
func TestTypedSyscallsDecodeWhatTheirSchemaAccepts(t *testing.T) {
	type level int
	type share float64
	type in struct {
		Level level   `json:"level,omitempty"`
		Share share   `json:"share,omitempty"`
		Small float32 `json:"small,omitempty"`
	}
	k := kerneltest.New(t, nil, kernel.Query(kernel.Definition{Type: "Number.Read", Summary: "Read numbers."},
		func(_ context.Context, in in) (string, error) { return fmt.Sprint(in.Level, in.Share, in.Small), nil }))
	for _, c := range []struct{ name, data, want string }{
		{"an integer type with a name", `{"level":1.0}`, `"1 0 0"`},
		{"a float type with a name", `{"share":1e400}`, `"0 1.7976931348623157e+308 0"`},
		{"a small float", `{"small":1e300}`, `"0 0 3.4028235e+38"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := kerneltest.Answer(t, k, kerneltest.Query("1", "Number.Read", c.data)); string(a.Data) != c.want {
				t.Errorf("got %s", a.Data)
			}
		})
	}
}

func TestTypedSyscallsHaveTheirKindAndTheirSchemas(t *testing.T) {
	type in struct {
		A string `json:"a"`
	}
	d := kernel.Definition{Type: "Test.Do", Summary: "Do.", Kind: message.KindEvent}
	f := func(context.Context, in) (int, error) { return 0, nil }
	q, c := kernel.Query(d, f), kernel.Command(d, f)
	if q.Kind != message.KindQuery || c.Kind != message.KindCommand {
		t.Errorf("got %s and %s", q.Kind, c.Kind)
	}
	const want = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	if got := string(q.Input.JSON()); got != want {
		t.Errorf("got %s", got)
	}
	if got := string(q.Output.JSON()); got != `{"type":"integer"}` {
		t.Errorf("got %s", got)
	}
}

func TestTypedSyscallsFailWithTheErrorOfTheirFunction(t *testing.T) {
	const secret = "password hunter2"
	cause := &message.Error{Code: 404, Message: "No such key"}
	for _, c := range []struct {
		name   string
		err    error
		code   int
		text   string
		logged bool
	}{
		{"an error for the caller", message.Errorf(409, "It changed"), 409, "It changed", false},
		{"one with a cause", message.Errorf(502, "Can't fetch: %w", cause), 502, "Can't fetch: No such key", false},
		{"one that is wrapped", fmt.Errorf("here: %w", cause), 404, "No such key", false},
		{"one with an invalid code", &message.Error{Code: 200, Message: "Odd"}, 500, "Odd", false},
		{"time that ran out elsewhere", context.DeadlineExceeded, 504, "Not done in time", false},
		{"a cancelled context", fmt.Errorf("reading: %w", context.Canceled), 499, "Cancelled before it was done", false},
		{"any other error", errors.New(secret), 500, "Internal error; the kernel's log has the details", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log testkit.Notes
			k := kerneltest.New(t, &kernel.Options{Log: log.Logger()}, kernel.Command(kernel.Definition{Type: "Test.Fail", Summary: "Fail."},
				func(context.Context, struct{}) (string, error) { return "", c.err }))
			a := kerneltest.Answer(t, k, kerneltest.Command("req-1", "Test.Fail", `{}`))
			code, text := kerneltest.ReadError(t, a)
			if code != c.code || text != c.text {
				t.Errorf("got %d %s", code, text)
			}
			if strings.Contains(string(a.Data), secret) {
				t.Errorf("the caller sees %s", a.Data)
			}
			if c.logged != log.Has(secret, "Test.Fail", "req-1") {
				t.Errorf("the log has %q", &log)
			}
			if !c.logged && log.String() != "" {
				t.Errorf("the log has %q", &log)
			}
		})
	}
}

func TestTypedSyscallsThatCantWriteTheirOutputFail(t *testing.T) {
	var log testkit.Notes
	k := kerneltest.New(t, &kernel.Options{Log: log.Logger()}, kernel.Query(kernel.Definition{Type: "Test.Nan", Summary: "Fail."},
		func(context.Context, struct{}) (float64, error) { return math.NaN(), nil }))
	if code, _ := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Nan", `{}`)); code != 500 {
		t.Errorf("got %d", code)
	}
	if !log.Has("NaN") {
		t.Errorf("the log has %q", &log)
	}
}

func TestTypedSyscallsReportProgressAndEmitEvents(t *testing.T) {
	d := kernel.Definition{Type: "Job.Run", Summary: "Run.", Emits: []kernel.EventDefinition{{Type: "Job.Completed", Summary: "A job is done."}}}
	k := kerneltest.New(t, nil, kernel.DefineCommand[struct{}, string](d).BindStream(func(_ context.Context, _ struct{}, s *kernel.Stream) (string, error) {
		s.Progress("half \"way\"", 0.5)
		s.Progress("too far", 7)
		s.Progress("not yet", -1)
		s.Progress("nowhere", math.NaN())
		if err := s.Emit("Job.Completed", map[string]int{"jobs": 2}); err != nil {
			return "", err
		}
		if err := s.Emit("Job.Completed", math.Inf(1)); err == nil {
			return "", errors.New("an infinite number was emitted")
		}
		return "done", nil
	}))
	m := kerneltest.Command("run-1", "Job.Run", `{}`)
	all := kerneltest.Ask(k, m)
	want := []struct {
		kind message.Kind
		name message.Type
		data string
	}{
		{message.KindEvent, "Syscall.Progressed", `{"message":"half \"way\"","percentage":0.5}`},
		{message.KindEvent, "Syscall.Progressed", `{"message":"too far","percentage":1}`},
		{message.KindEvent, "Syscall.Progressed", `{"message":"not yet","percentage":0}`},
		{message.KindEvent, "Syscall.Progressed", `{"message":"nowhere","percentage":0}`},
		{message.KindEvent, "Job.Completed", `{"jobs":2}`},
		{message.KindReply, "Job.Run", `"done"`},
	}
	if len(all) != len(want) {
		t.Fatalf("got %s", kerneltest.Texts(all))
	}
	ids := make(map[message.ID]bool)
	for i, w := range want {
		got := all[i]
		if got.Kind != w.kind || got.Type != w.name || string(got.Data) != w.data {
			t.Errorf("got %s, want %v", kerneltest.Texts(all[i:i+1]), w)
		}
		if err := got.Validate(); err != nil {
			t.Error(err)
		}
		// An event belongs to the workflow that its request began; the reply names one
		// only if the request did.
		correlation := "run-1"
		if w.kind == message.KindReply {
			correlation = ""
		}
		if got.Metadata.Causation != "run-1" || got.Metadata.Correlation != correlation {
			t.Errorf("got the lineage %+v", got.Metadata)
		}
		ids[got.Metadata.ID] = true
	}
	if len(ids) != len(want) {
		t.Errorf("the ids repeat: %v", ids)
	}
}

func TestTypedSyscallsSeeTheirDeadline(t *testing.T) {
	k := kerneltest.New(t, &kernel.Options{Timeout: time.Hour}, kernel.Query(kernel.Definition{Type: "Test.Time", Summary: "Tell."},
		func(ctx context.Context, _ struct{}) (bool, error) {
			d, ok := ctx.Deadline()
			return ok && time.Until(d) > 59*time.Minute && time.Until(d) <= time.Hour, nil
		}))
	if got := kerneltest.Answer(t, k, kerneltest.Query("1", "Test.Time", `{}`)); string(got.Data) != "true" {
		t.Errorf("got %s", got.Data)
	}
}

// A message that a program builds may have no data, which is null on the wire.
func TestMissingDataIsNull(t *testing.T) {
	type in struct {
		A string `json:"a,omitempty"`
	}
	k := kerneltest.New(t, nil, kernel.Query(kernel.Definition{Type: "Test.Take", Summary: "Take."},
		func(context.Context, in) (string, error) { return "", nil }), kerneltest.Echo("Test.Echo"))
	for name, data := range map[string]json.RawMessage{"nil": nil, "null": json.RawMessage("null")} {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: the kernel panics: %v", name, p)
				}
			}()
			m := kerneltest.Query("1", "Test.Take", "")
			m.Data = data
			if code, _ := kerneltest.Failure(t, k, m); code != 422 {
				t.Errorf("%s: got %d", name, code)
			}
			m.Type = "Test.Echo"
			if got := kerneltest.Answer(t, k, m); got.Kind != message.KindReply || string(got.Data) != "null" {
				t.Errorf("%s: got %s", name, got.Data)
			}
		}()
	}
}
