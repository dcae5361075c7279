package introspect

import "kernos/kernel"

// Needs are what callers look for under names that the kernel doesn't have, in the order in which
// [kernel.Options] wants them, so that a caller stops looking for it. What the kernel can do is found by the words of the
// syscalls' presentations; some of those may be missing, or not allowed.
var Needs = []kernel.Need{
	{Words: "schedule scheduler timer cron remind reminder alarm delay sleep timeout wait later interval",
		Advice: "nothing here runs by the clock: let cron, or the caller, send the request when it is due; a value that is to vanish has ttl in Memory.Set"},
	{Words: "job task queue worker background batch workflow",
		Advice: "nothing here runs in the background: send requests with one metadata.correlation, and Message.Graph shows them as a workflow; a program can serve work with Syscall.Register"},
	{Words: "mail email sms slack notify notification webhook",
		Advice: "nothing here sends notifications; a program can, and serve that with Syscall.Register"},
	{Words: "script code typescript javascript js function lambda", Advice: "nothing here runs code"},
	{Words: "shell exec execute bash command process run python terminal sandbox program tool",
		Advice: "nothing here runs programs; a program can serve a syscall: kernos handle TYPE -- command"},
}
