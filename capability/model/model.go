// Package model is the one seam to language models: a provider is data, and a dialect is a
// function from a request to a stream of deltas.
//
//	Model.Generate {"messages":[{"type":"input","text":"hello"}]}
//	→ Model.Streamed {"part":0,"type":"reply","delta":{"text":"Hi"}} …
//	→ {"model":"claude","finish":"stop","messages":[{"part":0,"type":"reply","text":"Hi there"}],"usage":{…}}
//
// The messages are those of a session (cognitive-messages): input, reply, reasoning {title,
// summary}, tool-calls, tool-results, system, summary. Other types aren't shown to a model. What
// belongs to one model only, such as signatures of its reasoning and its own ids of calls, stands
// in the member opaque of a message, and is sent to that model only.
//
// A provider is the value of the key models/NAME in the memory, or stands in config.yaml under
// models:
//
//	{"dialect":"anthropic-messages","baseUrl":"https://api.anthropic.com","model":"claude-…","key":"pwenc:v2:…"}
//	{"dialect":"openai-chat","baseUrl":"http://127.0.0.1:11434/v1","model":"qwen3"}
//	{"dialect":"syscall","type":"Llama.Generate"}
//	{"dialect":"replay","cassette":"tour"}
//
// Its key is sealed for the provider's host. It is opened when a request is sent, and occurs
// nowhere else: a provider that sends it back has failed.
//
// # Goroutines
//
//   - The timer of a provider that has sent nothing for too long, for a moment, one per request.
package model

import (
	"kernos/capability/model/demo"
	"kernos/kernel"
)

// Module returns the module. Nil options mean defaults.
func Module(opts *Options) kernel.Module {
	m := newModels(opts)
	m.demo = demo.New()
	return kernel.Module{
		Name:    "model",
		Version: "1.0.0",
		Summary: "Language models, at providers or served by programs.",
		Domains: []string{"Model"},
		Syscalls: []kernel.Syscall{generate.BindStream(m.generate), check.BindStream(m.check), list.Bind(m.list),
			add.Bind(m.add), remove.Bind(m.remove), makeDefault.Bind(m.makeDefault)},
	}
}
