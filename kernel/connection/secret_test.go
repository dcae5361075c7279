package connection_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// records keeps what may be kept.
type records struct {
	mu  sync.Mutex
	all []string
}

func (d *records) Record(r kernel.Record) {
	kept := r.Message.Clone()
	kept.Data, _ = kernel.Redact(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, string(message.Append(nil, &kept)))
}

func (d *records) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	err := apply()
	for _, r := range rs[1:] {
		d.Record(r)
	}
	return err
}

// What a program on a connection answers is recorded as it comes in and as it goes out.
//
// Clauses: M24-8.2-1
func TestAPeerRepeatsASecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := new(records)
		d := &desk{}
		login := kerneltest.Within(time.Minute, asking("Acct.Login", func() *connection.Peer { return d.peer }))
		input, err := schema.Parse([]byte(`{"properties":{"password":{"writeOnly":true}}}`))
		if err != nil {
			t.Fatal(err)
		}
		login.Input = input
		offer := kerneltest.Raw("Test.Offer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			d.peer, _ = connection.PeerOf(ctx)
			emit(m.Reply(nil))
		})
		d.k = kerneltest.New(t, &kernel.Options{Recorder: rec}, login, offer)
		d.server, d.caller = kerneltest.Connect(d.k), kerneltest.Connect(d.k)
		d.server.In <- kerneltest.Query("offer", "Test.Offer", `1`)
		synctest.Wait()
		for _, kind := range []message.Kind{message.KindError, message.KindReply} {
			d.caller.In <- kerneltest.Query("a", "Acct.Login", `{"password":"hunter2"}`)
			request := d.asked(t)
			d.answer(message.KindEvent, "Acct.Tried", `{"with":"hunter2"}`, request)
			d.answer(kind, "Acct.Login", `{"code":400,"message":"bad password hunter2"}`, request)
			synctest.Wait()
		}
		// After its time is over it isn't known what an answer may say.
		d.caller.In <- kerneltest.Query("late", "Acct.Login", `{"password":"hunter2"}`)
		request := d.asked(t)
		time.Sleep(2 * time.Minute)
		d.answer(message.KindError, "Acct.Login", `{"code":400,"message":"bad password hunter2"}`, request)
		d.end(t)
		rec.mu.Lock()
		defer rec.mu.Unlock()
		hidden := 0
		for _, line := range rec.all {
			if strings.Contains(line, "hunter2") {
				t.Errorf("recorded %s", line)
			}
			if strings.Contains(line, "[redacted]") {
				hidden++
			}
		}
		if hidden != 6+6+3 {
			t.Errorf("%d records without something:\n%s", hidden, strings.Join(rec.all, "\n"))
		}
	})
}
