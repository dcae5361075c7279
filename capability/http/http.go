// Package http fetches from web servers.
//
//	Http.Fetch {"url":"https://example.com/"}  →  {"status":200,"headers":{…},"body":"…"}
//
// Whatever status the server answers with is a reply. An error means that there is no
// answer to give: the URL is none (400), the policy does not allow the host (403), the
// network failed (502), the time ran out (504), the body is larger than what is taken
// (413).
//
// A short text is given as body. All else goes to a blob as it comes, and the reply has
// its bodyRef.
//
// A header may hold sealed strings. They are opened just before they are sent; what is in
// them goes to the host that the caller named and to no other, if it is sealed for that host, and is taken out of the
// answer should the server send it back. Other credentials of a request are taken out of
// what goes to a blob, since that is on disk.
package http

import (
	"context"
	"encoding/json"
	"io"
	nethttp "net/http"
	"time"

	"kernos/internal/outbound"
	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store/blobs"
)

// Limits of a fetch.
const (
	defaultTimeout = 5 * time.Second
	maxTimeout     = 30 * time.Second

	// DefaultMaxBody is how many bytes a body may have, decompressed, if the options
	// don't set it.
	DefaultMaxBody = 256 << 20

	// maxInline is how many bytes of text are given in the reply itself, if the line has room
	// for them beside the headers.
	maxInline = message.MaxLine

	maxRedirects = 10

	// afterwards is how long a body may take to reach the disk when all of it has come.
	afterwards = 15 * time.Second
)

// Blobs keeps what is too large for a reply, or not text.
type Blobs interface {
	// PutReader keeps what a reader gives, for the caller of ctx. More than limit bytes are an error with code
	// 413, and nothing is kept. The error of the reader is in the error that it returns.
	PutReader(ctx context.Context, r io.Reader, limit int64) (blobs.Blob, error)
}

// Options are the settings of the module. The zero value is usable.
type Options struct {
	// Client makes the requests; see [outbound.NewClient]. Its cookies, its timeout and its
	// rule for redirects are not used. Nil means one that goes to public addresses only.
	Client *nethttp.Client

	// Blobs keeps large bodies. Nil means that a fetch of one fails.
	Blobs Blobs

	// Open opens a sealed string for a use, and returns what it is sealed for. Its errors must
	// not hold what is in it; one with the code 403 means that it is for another use, or not for
	// this caller. Nil means that requests with sealed strings are not sent.
	Open func(ctx context.Context, text string, use sealed.Use) ([]byte, sealed.Destination, error)

	// MaxBody is how many bytes a body may have, decompressed. 0 means DefaultMaxBody.
	MaxBody int64

	// Retries is how often a fetch that got no whole answer from the network is tried again,
	// within its time, if its method is one that may be repeated. The schema has no place
	// for a caller to ask for it.
	Retries int
}

// A fetcher fetches. It is safe for concurrent use and starts no goroutines but those of
// its client.
type fetcher struct{ Options }

var fetch = kernel.DefineCommand[input, output](kernel.Definition{
	Type:    "Http.Fetch",
	Summary: "Send a request to a web server. Whatever status it answers with is a reply.",
	Input:   schema.Written(inputSchema).Quiet(), // headers and URLs hold credentials
	Output:  schema.Written(outputSchema),
	Presentation: kernel.Presentation{
		Title: "Fetch a web address",
		Words: "web, url, website, open a page, contents of a website, request, curl, wget, download, browser, page, network, api, rest, mail, email, sms, " +
			"slack, webhook, get a web page, load a web page, call an api, post to a url, send a request to a server, what does the website say, " +
			"read an article online, get data from the internet, check whether a site is up, download a file from the web, hit an endpoint, " +
			"look it up on the internet",
		Aliases: []message.Type{"Network.Fetch"},
		Errors: []kernel.ErrorDefinition{
			{Code: 400, When: "the URL is invalid"},
			{Code: 403, When: "the policy for connections refuses the host, or a sealed string is for another one"},
			{Code: 413, When: "the body is larger than what is taken"},
			{Code: 502, When: "the server can't be reached, or its answer can't be read; every status is a reply"},
			{Code: 504, When: "the timeout has passed"},
		},
	},
	Behavior: kernel.Behavior{
		Runs:     kernel.Slow,
		Reaches:  []kernel.Reach{kernel.ToNetwork},
		Effect:   kernel.External,
		Timeout:  maxTimeout + afterwards,
		Volatile: volatile,
		Short:    true, // the handler itself puts a large body into a blob
	},
	Journaled: kernel.Journaled{Redact: redact},
})

// volatile are the headers that differ from one answer to the next although the page is the same.
var volatile = []string{
	"headers.age", "headers.alt-svc", "headers.cf-ray", "headers.date", "headers.expires", "headers.nel", "headers.ratelimit-*",
	"headers.report-to", "headers.reporting-endpoints", "headers.server-timing", "headers.set-cookie", "headers.traceparent",
	"headers.via", "headers.x-amz-*", "headers.x-amzn-*", "headers.x-cache*", "headers.x-correlation-id", "headers.x-ratelimit-*",
	"headers.x-request-id", "headers.x-response-time", "headers.x-runtime", "headers.x-served-by", "headers.x-timer", "headers.x-trace-id",
}

// Module returns the module.
func Module(opts Options) kernel.Module {
	f := &fetcher{opts}
	if f.Client == nil {
		f.Client = outbound.NewClient(outbound.Policy{}, nil)
	}
	if f.MaxBody <= 0 {
		f.MaxBody = DefaultMaxBody
	}
	return kernel.Module{
		Name:     "http",
		Version:  "1.0.0",
		Summary:  "Web servers, asked from here.",
		Domains:  []string{"Http", "Network"},
		Syscalls: []kernel.Syscall{fetch.BindStream(f.fetch)},
	}
}

type input struct {
	URL     string          `json:"url"`
	Method  string          `json:"method"`
	Headers json.RawMessage `json:"headers"` // strings, numbers, booleans, and lists of them
	Body    *string         `json:"body"`
	Timeout *float64        `json:"timeout"`
}

type output struct {
	Status  int                  `json:"status"`
	Headers map[string]string    `json:"headers"`
	Body    *string              `json:"body,omitzero"`
	BodyRef *message.BlobPointer `json:"bodyRef,omitzero"`

	Size      int64  `json:"size,omitzero"`
	MediaType string `json:"mediaType,omitzero"`
}

// The schemas are written out, since they are those of the specification to the letter;
// the output's body is the one of its examples. So url has no format, and what is no URL is
// a 400.
const (
	inputSchema = `{
		"type": "object",
		"properties": {
			"url": {"type": "string", "description": "HTTP/HTTPS URL to fetch. Must be valid URL format. Example: https://api.example.com/data"},
			"method": {"type": "string", "enum": ["GET", "POST", "PUT", "DELETE", "PATCH"], "description": "HTTP method. Defaults to GET if omitted. POST/PUT require body field."},
			"headers": {"type": "object", "description": "Optional HTTP headers as key-value pairs. A value may be a sealed string of Crypto.Seal (pwenc:…), alone or after a scheme: it is opened when the request is sent, and redacted from the reply and the journal. Example: {\"Authorization\": \"Bearer pwenc:v2:…\"}"},
			"body": {"type": "string", "description": "Request body for POST/PUT. Must be string (use JSON.stringify for objects). Ignored for GET."},
			"timeout": {"type": "number", "description": "Request timeout in milliseconds. Defaults to 5000ms. Maximum 30000ms."}
		},
		"required": ["url"],
		"additionalProperties": false
	}`
	outputSchema = `{
		"type": "object",
		"properties": {
			"status": {"type": "number", "examples": [200], "description": "HTTP status code. 200-299 = success, 400-499 = client error, 500-599 = server error"},
			"headers": {"type": "object", "description": "Response headers as key-value pairs"},
			"body": {"type": "string", "description": "Response body, if it is text and fits into the reply, a line of 16384 bytes. Otherwise there is bodyRef."},
			"bodyRef": {
				"type": "object",
				"description": "BlobPointer reference to response body (used when the reply would exceed 16384 bytes with it, or it isn't text). Blob.Read {ref: bodyRef} reads it, in parts. Format: {scheme: 'file'|'https'|'data', path: string, ...}.",
				"properties": {
					"scheme": {"type": "string", "enum": ["file", "https", "data"], "description": "Where the body is: a file, an https server, or the pointer itself."},
					"path": {"type": "string", "description": "Absolute path; for data, a media type, a comma and the data."},
					"authority": {"type": "string", "description": "Host, and port if it is not 443. For https only."},
					"query": {"type": "string", "description": "Query of an https address."},
					"fragment": {"type": "string", "description": "Part of the data that is meant."}
				},
				"required": ["scheme", "path"]
			},
			"size": {"type": "integer", "description": "With bodyRef: how many bytes the body has"},
			"mediaType": {"type": "string", "description": "With bodyRef: the media type of the body, as the server reports it"}
		},
		"required": ["status"],
		"additionalProperties": false
	}`
)
