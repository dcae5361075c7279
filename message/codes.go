package message

// A Code is what the code of an error means.
type Code struct {
	Code   int
	Name   string
	Cause  string
	Remedy string
}

// Codes returns the codes of the errors that Kernos gives by itself. A program that serves a syscall, or a server
// that a call reaches, may give others.
func Codes() []Code {
	return []Code{
		{400, "Bad request", "What was sent isn't JSON, or a URL, an id of a key or the hash of a blob can't be read as one.",
			"Send what the error names: over most wires, one JSON object per line."},
		{401, "Unauthorized", "The caller has proved nothing: no token, one that was revoked, or a key that has expired.",
			"Send a token: `kernos token` prints one, and `kernos console` lets a browser in again."},
		{403, "Forbidden", "The principal, or a rule of the session that caused the call, doesn't allow it; or the call reaches what it may not.",
			"Use a token with more rights (`kernos token create NAME --preset …`), or let the owner do it."},
		{404, "Not found", "The syscall, key, file, job, message or blob doesn't exist, or isn't for this caller.",
			"Look for the name that was meant: `kernos ls`, or the listing of the same module."},
		{405, "Method not allowed", "The path of the console takes another method of HTTP.",
			"Use the method that the error names."},
		{408, "Timeout of the request", "A request or a line was begun and not ended in time, or a connection was silent for too long.",
			"Connect again, and send whole lines; see the settings `idle` and `line-time`."},
		{409, "Conflict", "What the change was made for is no longer as it was: another revision or version, a name that is taken, a state that doesn't allow it. Of a job that a crash has interrupted: whether its call had its effect isn't known.",
			"Read again, and decide again. The same call with nothing changed fails again."},
		{410, "Gone", "A stream or its items are no longer kept, so that it can't be resumed.",
			"Look up the outcome with `kernos show ID`, or make a new call with the same idempotency key."},
		{413, "Too large", "A message, a value, a file or an answer is longer than it may be.",
			"Put large data into a blob or a file, and send a pointer to it; ask for a part, or for fewer entries."},
		{422, "Invalid", "The data doesn't fit the input schema, or makes no sense; the envelope breaks a rule; or an idempotency key came again with another command.",
			"Change the field that the error names; `kernos describe TYPE` shows the schema and an example."},
		{426, "Upgrade required", "The address is a WebSocket's, and the request doesn't ask for one.",
			"Open a WebSocket, or call over `/v1/call`."},
		{429, "Too many", "A limit of this caller is reached: connections, messages per second, calls, storage, or a budget.",
			"Wait, and send less at a time; `Retry-After` says how long, where it is known. The owner can raise the limit."},
		{499, "Cancelled", "The caller cancelled the call, or has left before it was done.",
			"None, if that was intended. What a call had changed outside of the kernel by then stays."},
		{500, "Internal error", "Something failed in a way that wasn't foreseen, such as a handler that ended without an answer.",
			"Read the daemon's log (`kernos status` names it), and report it if it isn't the fault of your own handler."},
		{501, "Not served", "This daemon, program or client can't do that.",
			"Use what the error names in its place."},
		{502, "Bad gateway", "What the call depends on has failed or left: a program that serves the syscall, a mounted server, a website, a model.",
			"Check that it runs; then repeat the call. Queries are safe to repeat, commands with an idempotency key too."},
		{503, "Unavailable", "The daemon shuts down, is overloaded or read-only, or what serves the syscall isn't there for now.",
			"Try again in a while; `kernos doctor` finds what is wrong for longer."},
		{504, "Timeout", "The call, or what it waits for, wasn't done before its deadline.",
			"Give it more time (`--timeout`), or run it as a job. It may have happened: look before you repeat a command without an idempotency key."},
		{507, "Out of storage", "The disk is full.",
			"Make room: `kernos status` shows what takes it, and `journal-size` limits the journal. Reads continue meanwhile."},
		{508, "Loop", "Calls or sessions nest too deep: something calls itself.",
			"Find the circle with `kernos graph`, and break it."},
	}
}
