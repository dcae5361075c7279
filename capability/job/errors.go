package job

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/message"
	"kernos/schema"
)

// unknownOutcome returns the error of a job that may have been done.
func unknownOutcome(t message.Type) *message.Error {
	return message.Errorf(409, "The kernel ended while %s ran, which acts outside of it: it isn't known whether it was done, and it isn't repeated. Check, then use Job.Retry; a job with repeat: true is repeated by itself", t)
}

// tokenEnded returns the error of a job whose principal has ended.
func tokenEnded(name string) *message.Error {
	return message.Errorf(403, "The token %q, which has started the job, was revoked or has expired", name)
}

// notServed returns the error of a job that has waited long enough. If an earlier process has begun the
// call, that has to be known first.
func notServed(t message.Type, begun bool) *message.Error {
	if begun {
		return unknownOutcome(t)
	}
	return message.Errorf(503, "No program that serves %s is connected; start the program, then use Job.Retry", t)
}

// errCanceled is the error of a canceled job.
var errCanceled = &message.Error{Code: 499, Message: "The job was canceled"}

// errForgotten is the reason of the error for a job that doesn't exist, or no longer.
var errForgotten = errors.New("the job is forgotten")

func notFound(id string) error {
	e := message.Errorf(404, "Job not found: %s (Job.List names the jobs; finished ones are forgotten after a week, or after their keep)", message.Clip(id, 64))
	e.Reason = errForgotten
	return e
}

// invalid returns the error for a field that fits the schema and makes no sense.
func invalid(field, format string, args ...any) *message.Error {
	return message.Invalid(field, "%s: %s", field, fmt.Sprintf(format, args...))
}

// invalidPayload returns the error for a payload that its syscall doesn't take.
func invalidPayload(field string, t message.Type, broken *schema.Invalid, payload jsontext.Value) error {
	text := broken.Error()
	if payload.Kind() == '"' {
		text += "; at the command line, --payload gives a text, and payload:=JSON everything else"
	}
	return invalid(field, "as the data of %s: %s", t, text)
}
