package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/message"
)

// A failure is an error of a provider, with what to do about it.
type failure struct {
	err   *message.Error // the error for the caller
	again bool           // another attempt may succeed
	wait  time.Duration  // how long the provider wants to be left alone; 0 means that it has named no time
}

func (f *failure) Error() string { return f.err.Error() }

// maxWait is how long a request waits at the provider's wish. If the provider wants longer, the caller decides.
const maxWait = time.Minute

// pause waits before the next attempt. It returns false if ctx ends first.
func (f *failure) pause(ctx context.Context, pauses *backoff.Backoff) bool {
	if f.wait > 0 {
		pauses = &backoff.Backoff{First: f.wait, Longest: f.wait}
	}
	return pauses.Wait(ctx.Done())
}

// Errors that an attempt ends with.
var (
	errCutOff    = &failure{again: true, err: unreadable("the stream ended in the middle")}
	errNoKeyring = message.Errorf(422, "This kernel has nothing that opens the sealed key")
	errBadKey    = message.Errorf(422, "The key is malformed: it is too short, or contains blanks or control characters; seal it again without them")
)

// unreadable returns the cause of a failure that lies in what the provider has sent.
func unreadable(words string) *message.Error {
	return message.Errorf(502, "%s", message.Clip(strings.ToUpper(words[:1])+words[1:], 500))
}

// failureOf returns what an attempt ends with as a failure that names the model.
func failureOf(p *provider, err error) *failure {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		known, _ := message.ErrorOf(err)
		f = &failure{err: known}
	}
	out := *f
	words := lower(f.err.Message)
	if f.wait > maxWait {
		words += fmt.Sprintf(", and wants to be left alone for %v", f.wait.Round(time.Second))
	}
	out.err = &message.Error{Code: f.err.Code, Message: fmt.Sprintf("The model %s failed: %s", p.name, words), Cause: f.err.Cause}
	return &out
}

func lower(text string) string {
	if len(text) > 1 && text[1] >= 'a' {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// saidFailure returns the failure that a provider speaks of, in an answer of its own or within a stream.
func saidFailure(status int, words, kind string) *failure {
	cause := message.Errorf(min(max(status, 400), 599), "%s", message.Clip(words, 1000))
	e := &message.Error{Code: 502, Cause: cause}
	f := &failure{err: e}
	switch {
	case status == 401 || status == 403:
		e.Message = "The provider refuses the key"
	case tooLong(words, kind) || status == 413:
		e.Code, e.Message = 413, "The conversation is longer than the model takes"
	case status == 429 && strings.Contains(kind, "quota"):
		e.Code, e.Message = 429, "The provider account has no quota left"
	case status == 429:
		e.Code, e.Message, f.again = 429, "The provider takes no more requests for now", true
	case status == 404:
		e.Message = "The provider doesn't know the model, or baseUrl is wrong"
	case status >= 300 && status < 400:
		e.Message = "The provider answers with a redirect, which is not followed; correct baseUrl"
	case status == 408, status == 409, status == 425, status >= 500:
		e.Message, f.again = "The provider has a problem", true
	default:
		e.Message = "The provider refuses the request"
	}
	return f
}

// streamFailure returns the failure that a provider speaks of within a stream, where it has no status.
func streamFailure(words, kind string) *failure {
	status := 500
	switch {
	case containsAny(kind, "rate_limit", "429"):
		status = 429
	case containsAny(kind, "overloaded", "server_error", "api_error", "timeout", "503", "500"):
		status = 503
	case containsAny(kind, "invalid_request", "not_found", "400", "404"):
		status = 400
	case containsAny(kind, "authentication", "permission", "401", "403"):
		status = 401
	}
	return saidFailure(status, words, kind)
}

// tooLong reports whether an error means that the conversation doesn't fit into the model. Most
// providers have no code for it, so this is the one place that looks at the words of their errors. The
// cassettes openai-too-long and anthropic-too-long have texts that providers send.
func tooLong(words, kind string) bool {
	return strings.Contains(kind, "context_length") ||
		containsAny(strings.ToLower(words), "prompt is too long", "context length", "context window", "maximum context", "context size", "too many tokens")
}

// errorText finds the text and the kind of an error in its body: {"error":{"message","type","code"}}, {"error":"…"}, or
// {"message":"…"}; else it is the body itself.
func errorText(text []byte) (words, kind string) {
	if !jsonscan.Valid(text) {
		return strings.TrimSpace(message.Clip(strings.ToValidUTF8(string(text), "?"), 500)), ""
	}
	all := jsonvalue.Members(text)
	if inner := jsonvalue.Members(all.Get("error")); inner != nil {
		all = inner
	} else if words, ok := jsonvalue.String(all.Get("error")); ok {
		return words, ""
	}
	words = jsonvalue.Plain(all.Get("message"))
	for _, name := range []string{"type", "code"} {
		if k, ok := jsonvalue.String(all.Get(name)); ok {
			kind += " " + k
		}
	}
	words = cmp.Or(words, string(text))
	return words, strings.TrimSpace(kind)
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
