package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kernos/capability/lifecycle"
	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/schema"
)

// stream calls a method and returns all items of its stream.
func (d *doctor) stream(ctx context.Context, method string, args ...any) ([]client.Item, error) {
	s, err := d.conn.Stream(ctx, method, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	var items []client.Item
	for item, err := range s.Items(ctx) {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}

// checkCall makes a first call.
func (d *doctor) checkCall(ctx context.Context) bool {
	items, err := d.stream(ctx, "service_hash")
	if err != nil {
		advice := "this may be a JSON-RPC server, but it doesn't speak this protocol"
		if errors.Is(err, context.DeadlineExceeded) {
			advice = "the server doesn't answer in time: look into its log"
		}
		d.wrong("rpc", advice, "service_hash: %v", err)
		return false
	}
	if err := client.CheckSequence(items); err != nil {
		d.wrong("rpc", "the server must be fixed", "service_hash: %v", err)
	} else {
		d.well("rpc", "a call is answered with a stream")
	}
	return d.checkHash(ctx, items)
}

// checkHash checks that the hash is the same the second time, and the same in every item.
func (d *doctor) checkHash(ctx context.Context, first []client.Item) bool {
	second, err := d.stream(ctx, "service_hash")
	if err != nil {
		d.wrong("hash", "look into the server's log", "%v", err)
		return false
	}
	a, b := hashOf(first), hashOf(second)
	other := slices.IndexFunc(first, func(i client.Item) bool { return i.ServiceHash != a })
	switch {
	case a == "":
		d.wrong("hash", "the server must be fixed: clients can't keep what it offers", "service_hash doesn't answer with a hash")
	case a != b:
		d.wrong("hash", "the server must be fixed, unless modules come and go just now", "the hash is %s, and then %s", a, b)
	case other >= 0:
		d.wrong("hash", "the server must be fixed", "the hash is %s, and an item has %q", a, first[other].ServiceHash)
	default:
		d.well("hash", "%s, each time", a)
	}
	return true
}

// hashOf returns the hash in the answer to service_hash.
func hashOf(items []client.Item) string {
	var said struct{ Hash string }
	for _, i := range items {
		if i.Type == client.Data {
			_ = json.Unmarshal(i.Data, &said) // otherwise it has none
		}
	}
	return said.Hash
}

// checkSchemas reads the schemas of all methods of the server.
func (d *doctor) checkSchemas(ctx context.Context) bool {
	data, err := d.conn.Call(ctx, "service_schema")
	if err != nil {
		d.wrong("schema", "the server must be fixed: callers have to know its methods by heart", "service_schema: %v", err)
		return true
	}
	var service struct {
		Modules []client.Module
		Total   int `json:"total_methods"`
	}
	if err := json.Unmarshal(data, &service); err != nil {
		d.wrong("schema", "the server must be fixed", "service_schema can't be read: %v", err)
		return true
	}
	total, problems := 0, []string{}
	for _, m := range service.Modules {
		total += len(m.Methods)
		problems = append(problems, d.checkModule(ctx, &m)...)
	}
	if total != service.Total {
		problems = append(problems, fmt.Sprintf("total_methods is %d, and there are %d", service.Total, total))
	}
	if len(problems) == 0 {
		d.well("schema", "%s in %s, each with its schema", terminal.Count(total, "method", "methods"), terminal.Count(len(service.Modules), "module", "modules"))
		return true
	}
	for i, p := range problems {
		if i == 5 {
			d.wrong("schema", "", "and %d more", len(problems)-i)
			break
		}
		d.wrong("schema", "the server must be fixed", "%s", p)
	}
	return true
}

// checkModule compares the schema of a module with the list of its methods.
func (d *doctor) checkModule(ctx context.Context, m *client.Module) (problems []string) {
	document, err := d.conn.Call(ctx, "service_module_schema", m.Namespace)
	if err != nil {
		return []string{fmt.Sprintf("the schema of %s: %v", m.Namespace, err)}
	}
	if _, err := schema.Parse(document); err != nil {
		problems = append(problems, fmt.Sprintf("the schema of %s: %v", m.Namespace, err))
	}
	var parts struct {
		OneOf []struct {
			Properties struct {
				Method struct{ Const string }
			}
		} `json:"oneOf"`
	}
	if err := json.Unmarshal(document, &parts); err != nil || len(parts.OneOf) != len(m.Methods) {
		return append(problems, fmt.Sprintf("the schema of %s has %d forms for %d methods", m.Namespace, len(parts.OneOf), len(m.Methods)))
	}
	for i, form := range parts.OneOf {
		if got := form.Properties.Method.Const; got != m.Methods[i] {
			problems = append(problems, fmt.Sprintf("the schema of %s has %q where its list has %q", m.Namespace, got, m.Methods[i]))
		}
	}
	return problems
}

// checkSequences provokes the different streams, and checks that they keep to the rules.
func (d *doctor) checkSequences(ctx context.Context) bool {
	for _, probe := range []struct {
		what, method string
		args         []any
		fails        bool
	}{
		{"a call that succeeds", "service_schema", nil, false},
		{"a method that doesn't exist", "service_nosuchmethod", []any{struct{}{}}, true},
		{"a schema that doesn't exist", "service_module_schema", []any{"nosuchmodule"}, true},
	} {
		items, err := d.stream(ctx, probe.method, probe.args...)
		if _, refused := errors.AsType[*client.RPCError](err); refused && probe.fails {
			d.doubtful("sequence", "a server should answer with guidance, so that clients can help", "%s: %v", probe.what, err)
			continue
		}
		if err == nil {
			err = client.CheckSequence(items)
		}
		if err == nil && probe.fails && len(items) > 0 && items[0].Type == client.Done {
			err = errors.New("it is answered as if it had succeeded")
		}
		if err != nil {
			d.wrong("sequence", "the server must be fixed", "%s: %v", probe.what, err)
			continue
		}
		var kinds []string
		for _, i := range items {
			kinds = append(kinds, string(i.Type))
		}
		if probe.fails && !slices.Contains(kinds, string(client.Guide)) {
			d.doubtful("sequence", "a server should answer with guidance, so that clients can help", "%s: %s", probe.what, strings.Join(kinds, " → "))
			continue
		}
		d.well("sequence", "%s: %s", probe.what, strings.Join(kinds, " → "))
	}
	if d.conn.EarlyItems() {
		d.wrong("sequence", "the server must be fixed: clients lose items", "items come before the acknowledgement of their stream")
	}
	return true
}

// checkStore asks a kernel for the state of its store. Other servers may not have one.
func (d *doctor) checkStore(ctx context.Context) bool {
	data, err := d.conn.Call(ctx, "kernel_status", struct{}{})
	if f, ok := errors.AsType[*client.Failure](err); ok && (f.Guidance != nil || d.Daemon == nil) {
		d.well("store", "the server isn't a kernel, or doesn't report its status")
		return true
	}
	if err != nil {
		d.wrong("store", "look into the log of the server", "%v", err)
		return true
	}
	var status struct {
		Listening  []string
		FileErrors []lifecycle.FileError
		Jobs       *lifecycle.Jobs     // servers before version 0.7.0 don't report them
		Sessions   *lifecycle.Sessions // nor those before version 0.8.0 these
		Meaning    *lifecycle.Meaning  // nor those before version 0.10.0 this
		Store      struct {
			Open     bool
			Bytes    int64
			Messages uint64
		}
	}
	if err := json.Unmarshal(data, &status); err != nil {
		d.wrong("store", "the server may be of another version", "its status can't be read: %v", err)
		return true
	}
	if d.Daemon != nil {
		d.checkListening(ctx, status.Listening)
	}
	for _, e := range status.FileErrors {
		d.wrong("syscalls", "correct the file: it is registered again when it changes", "%s isn't registered: %s", e.URI, e.Error)
	}
	if !status.Store.Open {
		d.doubtful("store", "a daemon opens it when it starts: look into its log", "it is not open")
		return true
	}
	d.well("store", "it is open: %s, %s recorded", terminal.Bytes(status.Store.Bytes), terminal.Count(int(status.Store.Messages), "message", "messages"))
	if status.Jobs != nil {
		d.checkJobs(status.Jobs)
	}
	d.checkModels(ctx)
	if m := status.Meaning; m != nil && m.Waiting != "" {
		d.doubtful("meaning", "correct embeddings in config.yaml, or wait until the model answers; searches go by words meanwhile", "texts aren't embedded: %s", m.Waiting)
	} else if m != nil && m.Again > 0 {
		d.well("meaning", "%d of %d texts are embedded again by %s", m.Done, m.Again, m.Model)
	} else if m != nil {
		d.well("meaning", "%s embedded by %s", terminal.Count(m.Entries, "text is", "texts are"), m.Model)
	}
	if s := status.Sessions; s != nil && s.Waiting > 0 {
		d.doubtful("sessions", "kernos session list --status waiting names them; Session.Decide, Session.Append or Session.Continue resumes them", "%s of sessions wait for a caller", terminal.Count(s.Waiting, "turn", "turns"))
	} else if s != nil {
		d.well("sessions", "%s; %d have ended and %d have failed since the start", terminal.Count(s.Running, "turn runs", "turns run"), s.Done, s.Failed)
	}
	return true
}

// checkModels looks at the settings of language models. None is asked: that would cost something.
func (d *doctor) checkModels(ctx context.Context) {
	data, err := d.conn.Call(ctx, "model_list", struct{}{})
	if err != nil {
		return // a server before version 0.8.0 has none
	}
	var list struct {
		Models []struct{ Name, Source, Problem string }
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return
	}
	usable := 0
	for _, m := range list.Models {
		switch {
		case m.Source == "built-in":
		case m.Problem != "":
			d.wrong("models", "correct models/"+m.Name+" in the memory, or in config.yaml", "%s can't be used: %s", m.Name, m.Problem)
		default:
			usable++
		}
	}
	if usable > 0 {
		d.well("models", "%s; kernos call Model.Check asks one", terminal.Count(usable, "is configured", "are configured"))
	}
}

// lateJob is how long a job may wait for its turn before that is worth a look.
const lateJob = time.Minute

// checkJobs looks at the work in the background.
func (d *doctor) checkJobs(j *lifecycle.Jobs) {
	oldest := time.Duration(j.Oldest * float64(time.Second)).Round(time.Second)
	switch {
	case j.Held:
		d.doubtful("jobs", "find out what the jobs have done since the backup, cancel those that must not continue, and run kernos job resume",
			"the store was restored from a backup: schedules are paused, and jobs that were running wait")
	case oldest > lateJob:
		d.doubtful("jobs", "kernos job list --status running shows what runs; kernos serve --jobs allows more at once",
			"%d run, and a job whose time has come waits for %v", j.Running, oldest)
	default:
		d.well("jobs", "%d run; %d have completed and %d have failed since the start; %s", j.Running, j.Completed, j.Failed, terminal.Count(j.Schedules, "schedule", "schedules"))
	}
}
