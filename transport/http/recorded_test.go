package http

import (
	"strings"
	"sync"
	"testing"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// records keeps in words what passes.
type records struct {
	mu  sync.Mutex
	all []string
}

func (r *records) Record(k kernel.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, string(k.Message.Kind)+" "+string(k.Message.Type)+" "+string(k.Message.Data))
}

func (r *records) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	for _, k := range rs {
		r.Record(k)
	}
	return apply()
}

// A call whose parameters can't be read names its syscall in its path: it is recorded as one that fails, without what was sent.
func TestACallThatCanNotBeReadIsRecorded(t *testing.T) {
	for _, c := range []struct{ path, body, want, text string }{
		{"kernel/ping", `{"payload":`, "query Ping", "The parameters of a call are JSON"},
		{"kernel/echo", `hunter2`, "command Echo", "The parameters of a call are JSON"},
		{"kernel/ping", `{"payload":"` + strings.Repeat("x", 1000) + `"}`, "query Ping", "may have 1000 bytes"},
		{"no/such", `{`, "query No.Such", "The parameters of a call are JSON"},
	} {
		kept := new(records)
		s := open(t, siteOptions{Options: Options{MaxBody: 1000}, recorder: kept})
		s.do("POST", "/v1/call/"+c.path, c.body)
		_, name, _ := strings.Cut(c.want, " ")
		if len(kept.all) != 2 || kept.all[0] != c.want+" "+kernel.RefusedData || !strings.HasPrefix(kept.all[1], string(message.KindError)+" "+name) || !strings.Contains(kept.all[1], c.text) {
			t.Errorf("%s %.20s: %q", c.path, c.body, kept.all)
		}
	}
}
