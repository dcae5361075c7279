package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// readSteps checks what a job calls: the syscalls exist, its caller may call them, and their data
// is valid, as far as that can be known before it runs.
func (j *Jobs) readSteps(k *kernel.Kernel, from kernel.Sender, in *startInput, s *spec) error {
	switch {
	case len(in.Steps) == 0 && in.Name == "":
		return invalid("name", "give the syscall to run, or steps")
	case len(in.Steps) > 0 && (in.Name != "" || len(in.Payload) > 0):
		return invalid("steps", "give either name and payload, or steps")
	case len(in.Steps) == 0:
		return j.checkCall(k, from, "payload", s.Name, s.Payload)
	}
	known := make(map[string]bool)
	for i := range in.Steps {
		if known[in.Steps[i].ID] {
			return invalid(fmt.Sprintf("steps/%d/id", i), "there is another step %q", in.Steps[i].ID)
		}
		known[in.Steps[i].ID] = true
	}
	for i := range in.Steps {
		given := &in.Steps[i]
		given.Payload, _ = k.Meant(given.Name, given.Payload)
		field := fmt.Sprintf("steps/%d", i)
		st := step{ID: given.ID, Name: given.Name, Payload: given.Payload, Needs: slices.Clone(given.Needs), Retry: s.Retry, Continue: given.OnFailure == "continue"}
		if given.Retry != nil {
			st.Retry = given.Retry.read()
		}
		uses, err := references(given.Payload)
		if err != nil {
			return invalid(field+"/payload", "%v", err)
		}
		for _, from := range uses {
			id, _, _ := strings.Cut(from, ".")
			if !slices.Contains(st.Needs, id) {
				st.Needs = append(st.Needs, id)
			}
		}
		for _, id := range st.Needs {
			if !known[id] {
				return invalid(field, "the step %q needs the step %q, which doesn't exist", st.ID, id)
			}
		}
		data := st.Payload
		if len(uses) > 0 {
			data = nil // the data is known when the step runs
		}
		if err := j.checkCallOf(k, from, field+"/payload", st.Name, data, len(uses) > 0); err != nil {
			return err
		}
		s.Steps = append(s.Steps, st)
	}
	if id := cycle(s.Steps); id != "" {
		return invalid("steps", "the step %q needs itself, directly or by way of others", id)
	}
	return nil
}

func (j *Jobs) checkCall(k *kernel.Kernel, from kernel.Sender, field string, t message.Type, data jsontext.Value) error {
	return j.checkCallOf(k, from, field, t, data, false)
}

// checkCallOf returns why a call would be refused now. Data that isn't known yet is not checked.
func (j *Jobs) checkCallOf(k *kernel.Kernel, from kernel.Sender, field string, t message.Type, data jsontext.Value, unknown bool) error {
	if len(data) == 0 {
		data = jsontext.Value("{}")
	}
	if t == kernel.ThroughType {
		return invalid("name", "%s calls another syscall; give the name and the data of that one", t)
	}
	s, err := k.Check(t, data, from)
	var broken *schema.Invalid
	if e, ok := err.(*message.Error); ok {
		broken, _ = e.Reason.(*schema.Invalid)
	}
	switch {
	case errors.Is(err, kernel.ErrUnknownType) && j.knows(t):
		return j.checkAbsent(from, field, t, data)
	case broken != nil && unknown:
		return nil
	case broken != nil:
		return invalidPayload(field, t, broken, data)
	case err != nil:
		return err
	}
	if s.Runs == kernel.Endless || s.Effect == kernel.Transient {
		return invalid("name", "%s belongs to a connection, and can't be a job", t)
	}
	return checkSecrets(s, field, data)
}

// foresee asks for what the calls of the job will reach, as far as that is known now: when they run, no person may be there
// to approve it.
func (s *spec) foresee(ctx context.Context, k *kernel.Kernel) (err error) {
	for _, st := range append(slices.Clip(s.Steps), step{Name: s.Name, Payload: s.Payload}) {
		called, ok := k.Registry().Lookup(st.Name)
		if !ok || called.Foreseen == nil {
			continue
		}
		reached, unfit := called.Foreseen([]byte(st.Payload))
		if unfit != nil {
			return unfit
		}
		for _, to := range reached {
			if e := kernel.Reaching(ctx, to.Reach, to.Target); e != nil {
				err = e
			}
			s.Granted = append(s.Granted, to)
		}
	}
	return err
}

// cycle returns a step that needs itself, or "".
func cycle(steps []step) string {
	done := make(map[string]bool)
	for range steps {
		for _, s := range steps {
			if !slices.ContainsFunc(s.Needs, func(id string) bool { return !done[id] }) {
				done[s.ID] = true
			}
		}
	}
	for _, s := range steps {
		if !done[s.ID] {
			return s.ID
		}
	}
	return ""
}
