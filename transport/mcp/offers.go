package mcp

import (
	"encoding/json"
	"regexp"
	"sync"

	"kernos/message"
)

// TaskSupport decides how the calls of a syscall become tasks, for clients that can follow tasks.
type TaskSupport byte

const (
	// NoTask: they don't, unless the syscall is Job.Start or Job.Retry.
	NoTask TaskSupport = iota

	// TaskOptional: a call is a job. Other clients wait for the reply.
	TaskOptional

	// TaskRequired: a call is a job. Other clients are refused.
	TaskRequired

	// TaskReplied: the reply is one of Job.Start, and names the job.
	TaskReplied
)

// An Offer shows a syscall as a prompt or as a resource, beside the tool that it is.
type Offer struct {
	Type  message.Type
	Title string

	// Tool is the name of the tool. "" means the usual one.
	Tool string

	// Task decides whether calls of the tool become tasks.
	Task TaskSupport

	// Prompt is the name of the prompt. Its arguments are the members of the syscall's data, and its
	// reply is {messages, description}, as the protocol defines them. "" means that it isn't one.
	Prompt string

	// Resource is the URI of the resource, or a template: test://{id}, or {+path} for a variable that may
	// have slashes. The variables are the members of the syscall's data. The reply is {contents}, as the
	// protocol defines them, or anything else, which is the resource as JSON. "" means that it isn't one.
	Resource string
	Name     string
	MimeType string
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{(\+?)(\w+)\}`) })

// kind returns the resource of an offer.
func (o *Offer) kind(s *Server) resourceKind {
	pattern, last := "^", 0
	for _, at := range variable().FindAllStringSubmatchIndex(o.Resource, -1) {
		inner := `[^/]+`
		if at[2] < at[3] {
			inner = `.+`
		}
		pattern += regexp.QuoteMeta(o.Resource[last:at[0]]) + `(?P<` + o.Resource[at[4]:at[5]] + `>` + inner + `)`
		last = at[1]
	}
	form := regexp.MustCompile(pattern + regexp.QuoteMeta(o.Resource[last:]) + "$")
	k := resourceKind{name: o.Name, mimeType: o.MimeType, matches: form.MatchString}
	if syscall, ok := s.k.Registry().Lookup(o.Type); ok {
		k.description = syscall.Summary
	}
	if last > 0 {
		k.template = o.Resource
	} else {
		k.list = func(*exchange, string) ([]resource, string, error) {
			return []resource{{URI: o.Resource, Name: o.Name, Title: o.Title, Description: k.description, MimeType: o.MimeType}}, "", nil
		}
	}
	k.read = func(x *exchange, uri string) ([]contents, error) {
		data := map[string]string{}
		values := form.FindStringSubmatch(uri)
		for i, name := range form.SubexpNames() {
			if name != "" {
				data[name] = values[i]
			}
		}
		reply, err := x.invoke(o.Type, data, nil)
		if err != nil {
			return nil, err
		}
		var all struct{ Contents []contents }
		if json.Unmarshal(reply, &all) == nil && len(all.Contents) > 0 {
			return all.Contents, nil
		}
		return []contents{textContents(uri, o.MimeType, string(reply))}, nil
	}
	return k
}
