package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/storetest"
)

// as sends a command for a principal, over a wire, and returns the answer.
func (k *kept) as(p *principal.Principal, t message.Type, data string) message.Message {
	ctx := kernel.ActFor(context.Background(), kernel.From(p, "ws"))
	answer, _ := k.Call(ctx, message.Message{Kind: message.KindCommand, Type: t, Data: json.RawMessage(data)}, nil)
	return answer
}

func (k *kept) write(p *principal.Principal, setting, value string) message.Message {
	return k.as(p, "VFS.Write", fmt.Sprintf(`{"uri":"os://sys/%s","content":%q}`, setting, value))
}

func asConsole(t *testing.T) *principal.Principal {
	t.Helper()
	return kerneltest.Principal(t, "01", "web", principal.Grant{Preset: principal.Console})
}

// changes are the records of changed settings.
func (k *kept) changes(t *testing.T) (all []journal.Entry) {
	t.Helper()
	all, _, err := k.Journal().List(t.Context(), journal.Query{Filter: journal.Filter{Type: string(kernel.SettingChanged)}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The attack: erase the journal, with the record of the deed, by a retention of a nanosecond;
// or make every call fail by a timeout of one.
func TestSettingsHaveFloors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
		k.ping(10)
		for setting, c := range map[string]struct{ value, floor string }{
			"journal-age":   {"1ns", "1h0m0s"},
			"timeout":       {"1ns", "100ms"},
			"in-flight":     {"1", "4"},
			"in-flight-all": {"1", "16"},
			"journal-size":  {"1B", "1MB"},
			"log-level":     {"ERROR+100", "ERROR"},
		} {
			for _, p := range []*principal.Principal{principal.TheOwner(), asConsole(t)} {
				got := k.write(p, setting, c.value)
				if e := got.Failure(); e.Code != 422 || !strings.Contains(e.Message, c.floor) || !strings.Contains(e.Message, setting) {
					t.Errorf("%s=%s for %s: %s, without a 422 that names %s", setting, c.value, p.Name(), got.Data, c.floor)
				}
			}
		}
		if got := k.changes(t); len(got) > 0 {
			t.Errorf("changed: %s", got[0].Message.Data)
		}
		time.Sleep(firstSweep + sweepEvery)
		synctest.Wait()
		if d, err := k.Journal().Dropped(); err != nil || d.Messages > 0 {
			t.Errorf("dropped %+v, %v", d, err)
		}
		k.end(t)
	})
}

func TestSettingsAreForThoseWhoMayChangeThem(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	agent := kerneltest.Principal(t, "02", "ci", principal.Grant{Preset: principal.Agent, Allow: []string{"*"}})
	got := k.write(agent, "timeout", "30s")
	if e := got.Failure(); e.Code != 403 || !strings.Contains(e.Message, `"ci"`) {
		t.Errorf("got %s", got.Data)
	}
	k.end(t)
}

// A change is in the log, whatever its level, and in the journal, whatever its age.
func TestAChangedSettingLeavesTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		level := new(slog.LevelVar)
		k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{Level: level, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		p := asConsole(t)
		for _, c := range [][2]string{{"log-level", "ERROR"}, {"journal-age", "1h"}, {"timeout", "20s"}} {
			if got := k.write(p, c[0], c[1]); got.Kind != message.KindReply {
				t.Fatalf("%v: %s", c, got.Data)
			}
		}
		k.ping(10)
		// A program that says the same is recorded as what it is.
		k.kernel.Handle(kernel.ActFor(t.Context(), kernel.From(p, "ws")), message.Message{Kind: message.KindEvent, Type: kernel.SettingChanged,
			Data: json.RawMessage(`{"name":"timeout","from":"20s","to":"1s"}`), Metadata: message.Metadata{ID: "forged", Timestamp: 1}}, func(message.Message) {})
		check := func(when string, forged bool) {
			t.Helper()
			synctest.Wait()
			all := k.changes(t)
			text := ""
			for _, e := range all {
				if e.Message.Metadata.ID == "forged" {
					if !forged || !e.Claim {
						t.Errorf("%s: the forged one is there: %+v", when, e)
					}
					continue
				}
				text += string(e.Message.Data) + "\n"
				if e.Claim || e.Way != kernel.Within || e.Principal != "01" || e.Name != "web" || e.Wire != "ws" || e.Message.Metadata.Causation == "" {
					t.Errorf("%s: %+v", when, e)
				}
			}
			for _, want := range []string{`{"name":"log-level","from":"INFO","to":"ERROR"}`, `{"name":"journal-age","from":"0","to":"1h0m0s"}`, `"name":"timeout"`} {
				if strings.Count(text, want) != 1 {
					t.Errorf("%s: there is\n%s, want %s once", when, text, want)
				}
			}
			if err := k.Journal().Check(t.Context()); err != nil {
				t.Error(err)
			}
		}
		check("at once", true)
		time.Sleep(30 * time.Minute)
		check("after less than an hour", true)
		for range 3 {
			time.Sleep(2 * time.Hour)
			check("after hours", false)
		}
		if d, err := k.Journal().Dropped(); err != nil || d.Messages < 20 || d.Why != "age" {
			t.Errorf("dropped %+v, %v", d, err)
		}
		k.end(t)
		for _, want := range []string{"name=log-level from=INFO to=ERROR principal=web", "name=journal-age from=0 to=1h0m0s principal=web", "name=timeout"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log has no %s:\n%s", want, log.String())
			}
		}
	})
}
