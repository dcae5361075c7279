package job

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// redact returns the data of Job.Start as it may be kept: each payload as that of a request to
// the syscall that it is for.
func (j *Jobs) redact(data json.RawMessage) json.RawMessage {
	w := jsonscan.Rewrite(data)
	if start := jsonscan.Space(data, 0); start < len(data) && data[start] == '{' {
		j.redactCall(&w, data, start)
	}
	kept, _ := w.Result()
	return kept
}

// redactCall redacts the job, or the step, at data[i].
func (j *Jobs) redactCall(w *jsonscan.Rewriter, data []byte, i int) (end int) {
	name := message.Type(jsonscan.Unquote(jsonscan.Member(data[i:], "name")))
	return w.Object(i, func(member []byte, i int) int {
		end := jsonscan.Skip(data, i)
		switch {
		case string(member) == "payload":
			if kept, changed := j.keptPayload(name, data[i:end]); changed {
				w.Replace(i, end, string(kept))
			}
		case string(member) == "steps" && data[i] == '[':
			w.Array(i, func(_, i int) int {
				if data[i] == '{' {
					return j.redactCall(w, data, i)
				}
				return jsonscan.Skip(data, i)
			})
		}
		return end
	})
}

// keptPayload returns a payload as it may be kept. One that its syscall doesn't take is refused, and
// may hold a secret anywhere.
func (j *Jobs) keptPayload(name message.Type, payload []byte) (kept json.RawMessage, changed bool) {
	k := j.kernel.Load()
	if k == nil {
		return json.RawMessage(kernel.RefusedData), true
	}
	given := payload
	payload, _ = k.Meant(name, given)
	s, ok := k.Registry().Lookup(name)
	switch {
	case ok && s.Input != schema.Any && !strings.Contains(string(payload), `"$from"`) && s.Input.Validate(payload) != nil,
		!ok && !j.knows(name), name == kernel.ThroughType:
		return json.RawMessage(kernel.RefusedData), true
	case !ok:
		s = unknownSyscall(name)
	}
	kept, changed = kernel.WithoutSecrets(s, message.KindCommand, payload)
	return kept, changed || !bytes.Equal(payload, given)
}

// unknownSyscall stands for one whose program isn't connected.
func unknownSyscall(t message.Type) *kernel.Syscall {
	return &kernel.Syscall{Definition: kernel.Definition{Type: t, Input: schema.Any, Output: schema.Any}}
}

func checkSecrets(s *kernel.Syscall, field string, data jsontext.Value) error {
	if _, held := kernel.WithoutSecrets(s, message.KindCommand, data); held {
		return invalid(field, "it holds a secret, and a job is kept on disk until it has run; seal the secret (Crypto.Seal) and give the sealed string")
	}
	return nil
}
