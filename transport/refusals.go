package transport

import "net/http"

// A Refusal is a kind of answer of HTTP that is given in place of a syscall's; see [Refuse].
type Refusal struct {
	Name   string
	Status int // 0 if it differs
	Cause  string
	Remedy string
}

// Refusals returns the kinds of refusals.
func Refusals() []Refusal {
	const retry = "Try again; `Retry-After` says after how many seconds."
	return []Refusal{
		{"bad_after", http.StatusUnprocessableEntity, "`after` isn't a number.", "Send the number of the last item that came, 0 if none did."},
		{"bad_blob_id", http.StatusBadRequest, "What follows /v1/blobs/ isn't the hash of a blob.", "Take the path from a BlobPointer as it is."},
		{"bad_event_id", http.StatusUnprocessableEntity, "Last-Event-ID isn't the id of an event of this stream.", "Send the id of the last event that came."},
		{"bad_range", http.StatusRequestedRangeNotSatisfiable, "The blob doesn't have the bytes of Range.", "`Content-Range` reports its size."},
		{"blob_unreadable", http.StatusInternalServerError, "The file of a blob can't be read.", "Read the daemon's log."},
		{"body_broken", http.StatusBadRequest, "The body of the request ended before its length.", "Send it again."},
		{"body_not_json", http.StatusBadRequest, "The body of a call isn't JSON.", "Send the data of the call as JSON."},
		{"body_too_large", http.StatusRequestEntityTooLarge, "The body of a call is longer than 1 MB.", "Put large data where it can be fetched, and send a pointer to it."},
		{"body_too_slow", http.StatusRequestTimeout, "The body of a call didn't come in time.", "Send it faster, or in parts."},
		{"events_only", http.StatusNotAcceptable, "service_resume answers with events only.", "Send `Accept: text/event-stream`."},
		{"forbidden", http.StatusForbidden, "The token may not read the metrics, which count all callers.", "Use a token with the preset viewer."},
		{"host_not_allowed", http.StatusForbidden, "The server isn't known by the name in Host.", "Use its address, or start it with `--allow-host NAME`."},
		{"invalid_params", http.StatusUnprocessableEntity, "service_resume lacks its parameters.", "Send subscription and after."},
		{"invalid_request", 0, "A call can't be made: a header isn't what it must be, or a parameter is of the wrong form.", "Change what the text names."},
		{"key_refused", 0, "The proof of a browser isn't valid, or has expired.", "Let the browser in again: `kernos console`."},
		{"method_not_allowed", http.StatusMethodNotAllowed, "The path has no such method of HTTP.", "Use one that `Allow` names."},
		{"no_owner", http.StatusServiceUnavailable, "No node of the cluster is known to own the kernel, or it went while the call waited.", retry},
		{"no_such_blob", http.StatusNotFound, "No blob has this hash, or it isn't for this caller.", "Read the message that pointed to it again: a blob goes when nothing refers to it."},
		{"no_such_page", http.StatusNotFound, "No page of the documentation is at this place.", "`/llms.txt` lists the pages."},
		{"no_such_token", http.StatusNotFound, "`kernos mcp --as NAME` names a token that doesn't exist.", "`kernos token list` shows the names."},
		{"no_token", http.StatusServiceUnavailable, "The file with the token can't be read, so that no request can be checked.", "Read the daemon's log."},
		{"not_found", http.StatusNotFound, "There is no such path.", "See the routes of the server."},
		{"not_ready", http.StatusServiceUnavailable, "The kernel can't do its work, such as writing to the disk.", "Read the daemon's log, or use `kernos doctor`."},
		{"not_the_owner", http.StatusForbidden, "A token wants to act for another token.", "Use that token itself."},
		{"origin_not_allowed", http.StatusForbidden, "A web page of another origin has sent the request.", "Start the server with `--allow-origin ORIGIN` if it should."},
		{"rate_exceeded", http.StatusTooManyRequests, "More requests per second came from this address than `request-rate` allows.", "Send fewer, or many messages in one request to /v1/messages."},
		{ShuttingDown, http.StatusServiceUnavailable, "The daemon is shutting down.", retry},
		{"stream_not_kept", http.StatusGone, "The stream, or the items that are asked for, are no longer kept.", "Make the call again with the same idempotency key."},
		{"token_required", http.StatusUnauthorized, "The request has no token, or one that doesn't exist any more.", "Send `Authorization: Bearer TOKEN`; `kernos token` prints one."},
		{TooManyConnections, http.StatusTooManyRequests, "As many connections are open as there may be.", retry},
		{"too_many_requests_at_once", http.StatusServiceUnavailable, "As many requests are being served as there may be.", retry},
		{Unavailable, http.StatusServiceUnavailable, "The node of a cluster that was asked may not answer at the moment.", retry},
		{"unknown_upgrade", http.StatusBadRequest, "The request asks for another upgrade than the one that /mcp has.", "Leave Upgrade out."},
		{"upgrade_required", http.StatusUpgradeRequired, "The path is a WebSocket's.", "Open a WebSocket, or use /v1/call."},
	}
}
