package kernel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// discreet is a recorder that keeps what may be kept.
type discreet struct{ recorder }

func (d *discreet) Record(r kernel.Record) {
	kept := r.Message.Clone()
	kept.Data, _ = kernel.Redact(r)
	r.Message = &kept
	d.recorder.Record(r)
}

func (d *discreet) RecordWith(b *store.Batch, rs []kernel.Record, apply func() error) error {
	if err := apply(); err != nil {
		return err
	}
	for _, r := range rs[1:] {
		d.Record(r)
	}
	return nil
}

// account is a command that is told a secret and answers with whatever the test wants.
func account(t *testing.T, h kernel.Handler) kernel.Syscall {
	s := kerneltest.AsCommand(kerneltest.Raw("Acct.Login", h))
	s.Input = parsed(t, `{"properties":{"password":{"writeOnly":true},"pin":{"writeOnly":true}}}`)
	s.Output = parsed(t, `{"properties":{"token":{"writeOnly":true}}}`)
	s.Emits = []kernel.EventDefinition{{Type: "Acct.Tried", Summary: "A test."}}
	return s
}

// The secrets of a request are in nothing that is kept of its call.
func TestWhatACallWasToldIsKeptNowhere(t *testing.T) {
	const request = `{"user":"ada","password":"hunter\"2 é","pin":471100}`
	for _, c := range []struct {
		name   string
		answer kernel.Handler
		want   []string // what is recorded behind the request
	}{
		{"error", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Fail(message.Errorf(400, `bad password hunter"2 é: %w`, message.Errorf(400, "471100 is no pin"))))
		}, []string{`out error Acct.Login a {"code":400,"message":"bad password [redacted]","cause":{"code":400,"message":"[redacted] is no pin"}}`}},
		{"raw error", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(message.Message{Kind: message.KindError, Data: []byte(`{"code":400,"message":"hunter\u00222 \u00e9"}`)})
		}, []string{`out error Acct.Login a {"code":400,"message":"[redacted]"}`}},
		{"event", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Event("Acct.Tried", []byte(`{"password":"another","with":["hunter\"2 é",471100,4711,true],"text":"{\"p\":\"hunter\\\"2 é\"}","token":"t"}`)))
			emit(m.Reply(nil))
		}, []string{
			`out event Acct.Tried a {"password":"[redacted]","with":["[redacted]","[redacted]",4711,true],"text":"{\"p\":\"[redacted]\"}","token":"[redacted]"}`,
			`out reply Acct.Login a null`,
		}},
		{"published", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			if err := kernel.Publish(ctx, "Acct.Tried", []byte(`["hunter%222+%C3%A9"]`)); err != nil {
				t.Error(err)
			}
			emit(m.Reply([]byte(`{"token":"t","hunter\"2 é":1}`)))
		}, []string{
			`within event Acct.Tried a ["[redacted]"]`,
			`out reply Acct.Login a {"token":"[redacted]","[redacted]":1}`,
		}},
		{"twice the same name", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply([]byte(`{"hunter\"2 é":1,"471100":2}`)))
		}, []string{`out reply Acct.Login a "[redacted]"`}},
		{"nested", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			data, err := kernel.Invoke(ctx, "Test.Echo", []byte(`{"body":"pin=471100"}`))
			if err != nil {
				t.Error(err)
			}
			emit(m.Reply(data))
		}, []string{
			`within query Test.Echo a {"body":"pin=[redacted]"}`,
			`within reply Test.Echo $ {"body":"pin=[redacted]"}`,
			`out reply Acct.Login a {"body":"pin=[redacted]"}`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := new(discreet)
			k := kerneltest.New(t, &kernel.Options{Recorder: rec}, account(t, c.answer), kerneltest.Echo("Test.Echo"))
			kerneltest.Ask(k, kerneltest.Command("a", "Acct.Login", request))
			want := append([]string{`in command Acct.Login  {"user":"ada","password":"[redacted]","pin":"[redacted]"}`}, c.want...)
			if len(rec.all) != len(want) {
				t.Fatalf("recorded %s", strings.Join(rec.all, "\n"))
			}
			for i, line := range rec.all {
				if !wild(want[i], line) {
					t.Errorf("recorded %s\nwant     %s", line, want[i])
				}
			}
		})
	}
}

// An error of a program may be read by others than who has sent the request. A reply is for the
// caller.
func TestAnErrorDoesNotRepeatASecret(t *testing.T) {
	fail := true
	login := account(t, func(_ context.Context, m message.Message, emit kernel.Emit) {
		if fail {
			emit(m.Fail(&message.Error{Code: 400, Message: "bad password hunter2", Field: "password", Cause: message.Errorf(400, "not hunter2")}))
			return
		}
		emit(m.Reply([]byte(`"hunter2"`)))
	})
	login.Provider = kernel.Program
	k := kerneltest.New(t, nil, login)
	m := kerneltest.Command("a", "Acct.Login", `{"password":"hunter2"}`)
	if got := kerneltest.Answer(t, k, m); string(got.Data) != `{"code":400,"message":"bad password [redacted]","cause":{"code":400,"message":"not [redacted]"}}` ||
		got.Err.Error() != "bad password [redacted]: not [redacted]" || got.Err.Field != "password" {
		t.Errorf("got %s, %v", got.Data, got.Err)
	}
	fail = false
	if got := kerneltest.Answer(t, k, m); string(got.Data) != `"hunter2"` {
		t.Errorf("got %s", got.Data)
	}
}

// Credentials that a request sends along come back in what servers answer.
func TestCredentialsOfARequestAreNotKeptWithItsOutcome(t *testing.T) {
	s := storetest.NewMemory()
	rec := new(discreet)
	fetch := kerneltest.AsCommand(kerneltest.Raw("Test.Fetch", func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Reply([]byte(`{"body":"you are Bearer abcdef12345, with sid 0123456789 in en, and ada has the password hunter2"}`)))
	}))
	fetch.Redact = kernel.Without("headers")
	k := kerneltest.New(t, &kernel.Options{Store: s, Recorder: rec}, fetch)
	m := keyed("a", "Test.Fetch", `{"headers":{"Authorization":"Bearer abcdef12345","Cookie":"lang=en; sid=0123456789","Proxy-Authorization":"Basic YWRhOmh1bnRlcjI="}}`, "k")
	kerneltest.Ask(k, m)
	const want = `{"body":"you are [redacted], with sid [redacted] in en, and ada has the password [redacted]"}`
	if last := rec.all[len(rec.all)-1]; !strings.HasSuffix(last, want) {
		t.Errorf("recorded %s", last)
	}
	if again := kerneltest.Ask(k, m); string(again[0].Data) != want {
		t.Errorf("the retry got %s", again[0].Data)
	}
	for e := range s.Scan(store.Range{}) {
		if strings.Contains(string(e.Value), "abcdef12345") || strings.Contains(string(e.Value), "hunter2") {
			t.Errorf("%q holds %q", e.Key, e.Value)
		}
	}
}

// A request that is nothing but secrets keeps its answers out of the journal.
func TestTooManySecretsToLookFor(t *testing.T) {
	rec := new(discreet)
	k := kerneltest.New(t, &kernel.Options{Recorder: rec}, account(t, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		if _, err := kernel.Invoke(ctx, "Test.Echo", []byte(`"secret 7"`)); err != nil {
			t.Error(err)
		}
		emit(m.Fail(message.Errorf(400, "secret 7")))
	}), kerneltest.Echo("Test.Echo"))
	data := `{"password":[`
	for i := range 600 {
		data += fmt.Sprintf(`"secret %d",`, i)
	}
	kerneltest.Ask(k, kerneltest.Command("a", "Acct.Login", strings.TrimSuffix(data, ",")+`]}`))
	for _, line := range rec.all {
		if strings.Contains(line, "secret 7") {
			t.Errorf("recorded %s", line)
		}
	}
	if last := rec.all[len(rec.all)-1]; !strings.Contains(last, `"message":"[redacted]"`) && !strings.HasSuffix(last, kernel.RedactedData) {
		t.Errorf("recorded %s", last)
	}
}

// FuzzKnownSecrets lets a call repeat a secret, of any text, in any text.
func FuzzKnownSecrets(f *testing.F) {
	f.Add("hunter2", "bad password ", " for ada", false)
	f.Add("a\"b\\c\n", `{"x":"`, `"}`, true)
	f.Add("pwenc", "[redac", "ted]", false)
	f.Add("éé\u2028", "", "", true)
	f.Fuzz(func(t *testing.T, known, before, after string, inside bool) {
		known = strings.TrimSpace(strings.ToValidUTF8(known, ""))
		if len(known) < secret.MinValue || strings.Contains(secret.Redacted, known) {
			return
		}
		said := before + known + after
		if inside { // a text that is JSON
			said = string(jsonscan.AppendQuoted(nil, said))
		}
		var recorded []kernel.Record
		k := kerneltest.New(t, &kernel.Options{Recorder: recording(func(r kernel.Record) {
			kept := r.Message.Clone()
			kept.Data, _ = kernel.Redact(r)
			recorded = append(recorded, kernel.Record{Message: &kept})
		})}, account(t, func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(jsonscan.AppendQuoted(nil, said)))
		}))
		kerneltest.Ask(k, kerneltest.Command("a", "Acct.Login", string(jsonscan.AppendQuoted([]byte(`{"password":`), known))+`}`))
		if len(recorded) != 2 {
			t.Fatalf("%d records", len(recorded))
		}
		kept := string(recorded[1].Message.Data)
		if !jsonscan.Valid([]byte(kept)) {
			t.Fatalf("%q became %s", said, kept)
		}
		// What stands around it may make it up again; what was said must not be there.
		if text := jsonscan.Unquote([]byte(kept)); strings.Count(text, known) > strings.Count(before+secret.Redacted+after, known) {
			t.Fatalf("%q with the secret %q became %s", said, known, kept)
		}
	})
}

// recording is a recorder that is one function.
type recording func(kernel.Record)

func (f recording) Record(r kernel.Record) { f(r) }

func (f recording) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	err := apply()
	for _, r := range slices.Clip(rs[1:]) {
		f(r)
	}
	return err
}
