package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/capability/lifecycle"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withModule returns a kernel with the module and others.
func withModule(t *testing.T, opts *kernel.Options, o lifecycle.Options, others ...kernel.Module) *kernel.Kernel {
	t.Helper()
	k := kerneltest.Of(t, opts, others...)
	o.Registry = k.Registry()
	if err := o.Registry.Add(lifecycle.Module(o)); err != nil {
		t.Fatal(err)
	}
	return k
}

func TestShutdownAnswersAndBegins(t *testing.T) {
	begun := 0
	k := withModule(t, nil, lifecycle.Options{Shutdown: func() { begun++ }})
	for want := 1; want <= 2; want++ {
		got := kerneltest.Answer(t, k, kerneltest.Command("req-1", "Syscall.Shutdown", `{}`))
		if got.Kind != message.KindReply || string(got.Data) != `{"success":true}` {
			t.Errorf("the answer is %s", got.Data)
		}
		if begun != want {
			t.Errorf("the end has begun %d times, want %d", begun, want)
		}
	}
	if got := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Syscall.Shutdown", `{}`)); got.Err == nil || got.Err.Code != 422 || begun != 2 {
		t.Errorf("as a query it is answered with %s, and the end has begun %d times", got.Data, begun)
	}
	if got := kerneltest.Answer(t, k, kerneltest.Command("req-1", "Syscall.Shutdown", `{"now":true}`)); got.Err == nil || got.Err.Code != 422 || begun != 2 {
		t.Errorf("with an unknown field it is answered with %s, and the end has begun %d times", got.Data, begun)
	}
}

func TestAKernelWithoutALifeOfItsOwnIsNotShutDown(t *testing.T) {
	got := kerneltest.Answer(t, withModule(t, nil, lifecycle.Options{}), kerneltest.Command("req-1", "Syscall.Shutdown", `{}`))
	if got.Err == nil || got.Err.Code != 403 || !strings.Contains(got.Err.Message, "ends with its input") {
		t.Errorf("the answer is %s", got.Data)
	}
}

func TestStatusSaysWhatIsServed(t *testing.T) {
	o := lifecycle.Options{Status: func() lifecycle.Status {
		return lifecycle.Status{Version: "1.2.3", PID: 7, Origin: "https://a.local/", Messages: lifecycle.Traffic{Total: 5, PerSecond: 2}}
	}}
	k := withModule(t, nil, o)
	got := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Kernel.Status", `{}`))
	var s lifecycle.Status
	if err := json.Unmarshal(got.Data, &s); err != nil {
		t.Fatalf("%v: %s", err, got.Data)
	}
	if s.Version != "1.2.3" || s.PID != 7 || s.Origin != "https://a.local/" || s.Messages.Total != 5 || s.Messages.PerSecond != 2 {
		t.Errorf("it says %s", got.Data)
	}
	r := k.Registry()
	if s.Served.Syscalls != len(r.All().Types()) || s.Served.Hash != r.All().Hash() || fmt.Sprint(s.Served.Modules) != "[kernel syscall]" {
		t.Errorf("it serves %+v, and the registry has %v, %s", s.Served, r.All().Types(), r.All().Hash())
	}
	fits(t, k, "Kernel.Status", got.Data)

	// A program that knows nothing still says what it serves.
	k = withModule(t, nil, lifecycle.Options{})
	got = kerneltest.Answer(t, k, kerneltest.Query("req-1", "Kernel.Status", `{}`))
	if err := json.Unmarshal(got.Data, &s); err != nil || s.Served.Syscalls != 6 {
		t.Errorf("%v: %s", err, got.Data)
	}
	fits(t, k, "Kernel.Status", got.Data)
}

// fits holds a reply against the schema that describes it.
func fits(t *testing.T, k *kernel.Kernel, what message.Type, data json.RawMessage) {
	t.Helper()
	s, _ := k.Registry().Lookup(what)
	if err := s.Output.Validate(data); err != nil {
		t.Errorf("%s: the reply is not what the schema says: %v", what, err)
	}
}

func TestModulesListsWhatCanBeCalled(t *testing.T) {
	o := lifecycle.Options{}
	k := withModule(t, nil, o, waiting(nil))
	got := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Kernel.Modules", `{}`))
	fits(t, k, "Kernel.Modules", got.Data)
	var c lifecycle.Catalog
	if err := json.Unmarshal(got.Data, &c); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, g := range c.Modules {
		for _, e := range g.Syscalls {
			types = append(types, g.Name+" "+string(e.Kind)+" "+string(e.Type))
		}
	}
	want := "kernel query Kernel.Status, kernel query Kernel.Attention, kernel query Kernel.Modules, kernel command Syscall.Cancel, kernel command Syscall.Shutdown, kernel query Kernel.Backup, test query Test.Wait"
	if got := strings.Join(types, ", "); got != want {
		t.Errorf("it lists %s\nwant %s", got, want)
	}
	if c.Hash != k.Registry().All().Hash() {
		t.Errorf("the hash is %s", c.Hash)
	}
}

// waiting is a module with a slow query that waits until it is cancelled.
func waiting(begun chan<- struct{}) kernel.Module {
	type nothing struct{}
	return kerneltest.Module("test",
		kernel.Query(kernel.Definition{Type: "Test.Wait", Summary: "Wait.", Behavior: kernel.Behavior{Runs: kernel.Slow}},
			func(ctx context.Context, _ nothing) (nothing, error) {
				begun <- struct{}{}
				<-ctx.Done()
				return nothing{}, ctx.Err()
			}),
		kernel.Query(kernel.Definition{Type: "Test.Hidden", Summary: "Be there.", Presentation: kernel.Presentation{Visibility: kernel.Hidden}},
			func(context.Context, nothing) (nothing, error) { return nothing{}, nil }),
	)
}

func TestCancelCallsASlowRequestOff(t *testing.T) {
	begun := make(chan struct{})
	c := converse(t, withModule(t, nil, lifecycle.Options{}, waiting(begun)))
	c.say("query", "Test.Wait", "{}", "w1")
	c.say("query", "Test.Wait", "{}", "w2")
	<-begun
	<-begun
	c.say("command", "Syscall.Cancel", `{"id":"nosuch"}`, "c0")
	c.expect(`c0 reply {"cancelled":false}`)
	c.say("command", "Syscall.Cancel", `{"id":"w1"}`, "c1")
	c.expect(`c1 reply {"cancelled":true}`, "w1 "+cancelled)
	// The other one is still there.
	c.say("command", "Syscall.Cancel", `{"id":"w2"}`, "c3")
	c.expect(`c3 reply {"cancelled":true}`, "w2 "+cancelled)
	c.say("command", "Syscall.Cancel", `{"id":""}`, "c4")
	if got := c.hear(); !strings.HasPrefix(got, `c4 error {"code":422,`) {
		t.Errorf("the answer is %s", got)
	}
	c.end()
}

// Where there is no connection there is nothing to call off.
func TestCancelWithoutAConnection(t *testing.T) {
	got := kerneltest.Answer(t, withModule(t, nil, lifecycle.Options{}), kerneltest.Command("req-1", "Syscall.Cancel", `{"id":"x"}`))
	if string(got.Data) != `{"cancelled":false}` {
		t.Errorf("the answer is %s", got.Data)
	}
}
