package introspect

import (
	"kernos/kernel"
	"kernos/message"
)

// Needs are what callers look for under names that the kernel doesn't have, in the order in which
// [kernel.Options] wants them. What the kernel can't do is listed, too, so that a caller stops looking for it.
var Needs = []kernel.Need{
	{Words: "schedule scheduler timer cron remind reminder alarm delay sleep timeout wait later interval",
		Offers: []message.Type{"Job.Start"},
		Advice: "nothing here runs by the clock: let cron, or the caller, send the request when it is due; a value that is to vanish has ttl in Memory.Set"},
	{Words: "job task queue worker background batch workflow",
		Offers: []message.Type{"Job.Start"},
		Advice: "nothing here runs in the background: send requests with one metadata.correlation, and Message.Graph shows them as a workflow; a program can serve work with Syscall.Register"},
	{Words: "counter increment count sequence",
		Offers: []message.Type{"Memory.Increment"}},
	{Words: "file fs filesystem disk directory folder path document",
		Offers: []message.Type{"VFS.Read", "VFS.Write", "VFS.List"}},
	{Words: "kv store storage database db cache redis state note variable setting config",
		Offers: []message.Type{"Memory.Set", "Memory.Get", "Memory.List"}},
	{Words: "web url request curl download browser page network api rest",
		Offers: []message.Type{"Http.Fetch"}},
	{Words: "mail email sms slack notify notification webhook",
		Offers: []message.Type{"Http.Fetch"},
		Advice: "nothing here sends notifications; a program can, and serve that with Syscall.Register"},
	{Words: "secret encrypt decrypt password vault credential key hash sign",
		Offers: []message.Type{"Crypto.Seal"}},
	{Words: "log history audit event trace journal record",
		Offers: []message.Type{"Message.List", "Message.Search", "Message.Graph"}},
	{Words: "subscribe watch listen stream notify topic pubsub",
		Offers: []message.Type{"Message.Watch"}},
	{Words: "script code typescript javascript js function lambda",
		Offers: []message.Type{"Syscall.Register"},
		Advice: "nothing here runs code"},
	{Words: "shell exec execute bash command process run python terminal sandbox program tool",
		Advice: "nothing here runs programs; a program can serve a syscall: kernos handle TYPE -- command"},
	{Words: "agent skill prompt content markdown",
		Offers: []message.Type{"Content.Hydrate", "Content.Index"}},
	{Words: "help man docs documentation schema introspect discover",
		Offers: []message.Type{"Syscall.Describe", "Syscall.List"}},
	{Words: "health status version uptime info",
		Offers: []message.Type{"Kernel.Status"}},
}
