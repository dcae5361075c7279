package http

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net"
	nethttp "net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/message"
)

// A request is what a caller wants, checked.
type request struct {
	method  string
	url     *url.URL
	header  nethttp.Header                  // has the plain text of sealed strings, once they are opened
	host    string                          // the value of the header Host, if the caller sets it
	sealed  map[string][]sealed.Destination // destinations of sealed headers, by canonical header name
	secrets *secret.Values                  // secrets that were in sealed headers
	body    string
	timeout time.Duration
}

// check turns the input into a request, or returns what is wrong with it: 400 for the URL,
// 422 for the rest.
func (in *input) check() (*request, error) {
	r := &request{method: cmp.Or(in.Method, nethttp.MethodGet), timeout: defaultTimeout}
	var err error
	if r.url, err = parseURL(in.URL); err != nil {
		return nil, err
	}
	if in.Timeout != nil {
		ms, most := *in.Timeout, float64(maxTimeout/time.Millisecond)
		if ms <= 0 || ms > most {
			return nil, message.Invalid("timeout", "timeout must be more than 0 and at most %v milliseconds, got %v", most, ms)
		}
		r.timeout = time.Duration(math.Ceil(ms * float64(time.Millisecond)))
	}
	switch {
	case in.Body == nil && (r.method == nethttp.MethodPost || r.method == nethttp.MethodPut):
		return nil, message.Invalid("body", `%s requires the field body; "" sends an empty one`, r.method)
	case in.Body != nil && r.method != nethttp.MethodGet:
		r.body = *in.Body
	}
	return r, r.setHeaders(in.Headers)
}

// parseURL reads a URL. Its errors quote nothing that may be a password.
func parseURL(text string) (*url.URL, error) {
	refuse := func(format string, args ...any) error {
		return &message.Error{Code: 400, Message: "Invalid URL: give one such as https://example.com/path", Field: "url", Cause: message.Errorf(400, format, args...)}
	}
	u, err := url.Parse(text)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok && !strings.Contains(text, "@") {
			return nil, refuse("it can't be parsed: %s", message.Clip(outer.Err.Error(), 200))
		}
		return nil, refuse("it can't be parsed")
	}
	switch {
	case u.Scheme == "":
		return nil, refuse("it has no scheme; begin it with https:// or http://")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, refuse("the scheme must be http or https, got %s", message.Clip(u.Scheme, 40))
	case u.Hostname() == "":
		return nil, refuse("it has no host")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, refuse("the port must be a number from 1 to 65535, got %s", message.Clip(port, 40))
		}
	}
	return u, nil
}

// where names what is fetched, without what may be a secret.
func where(u *url.URL) string {
	return message.Clip(u.Scheme+"://"+u.Host+u.EscapedPath(), 400)
}

// ours are the headers that belong to the connection or frame the message. A value that a caller
// gives could only be wrong.
var ours = map[string]bool{
	"Connection": true, "Content-Length": true, "Keep-Alive": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// setHeaders takes the headers that the caller has given, and sets the usual others.
func (r *request) setHeaders(given json.RawMessage) (err error) {
	r.header, r.sealed = make(nethttp.Header), make(map[string][]sealed.Destination)
	if given != nil {
		jsonscan.Members(given, 0, func(name, value []byte) bool {
			err = r.setHeader(jsonscan.Unquote(name), value)
			return err == nil
		})
	}
	defaultTo := func(name, value string) {
		if _, ok := r.header[name]; !ok {
			r.header[name] = []string{value}
		}
	}
	defaultTo("User-Agent", "Kernos")
	if _, ok := r.header["Range"]; ok { // a part of something compressed can't be decoded
		defaultTo("Accept-Encoding", "identity")
	}
	defaultTo("Accept-Encoding", "gzip, zstd") // the codings that are decoded here
	if r.body != "" {
		defaultTo("Content-Type", "text/plain;charset=UTF-8")
	}
	return err
}

func (r *request) setHeader(name string, value json.RawMessage) error {
	if !isToken(name) {
		return message.Invalid("headers", "%s is not the name of a header", strconv.Quote(message.Clip(name, 64)))
	}
	key := nethttp.CanonicalHeaderKey(name)
	if ours[key] {
		return message.Invalid("headers", "the header %s is set by the kernel; leave it out", key)
	}
	values, ok := headerValues(value)
	if !ok {
		return message.Invalid("headers", "the header %s must be a string, or a list of strings", key)
	}
	for _, v := range values {
		if !isHeaderValue(v) {
			return message.Invalid("headers", "the header %s has a line break or another control character in it", key)
		}
		if sealed.In(v) {
			r.sealed[key] = nil // nil until the string is opened
		}
	}
	if _, isSealed := r.sealed[key]; key == "Host" {
		if len(values) != 1 || !isHost(values[0]) || isSealed {
			return message.Invalid("headers", "the header Host must be one host, with a port or without")
		}
		r.host = values[0]
		return nil
	}
	r.header[key] = append(r.header[key], values...)
	return nil
}

func headerValues(value json.RawMessage) ([]string, bool) {
	switch c := value[0]; {
	case c == '"':
		return []string{jsonscan.Unquote(value)}, true
	case c == 't', c == 'f', c == '-', '0' <= c && c <= '9':
		return []string{string(value)}, true
	case c != '[':
		return nil, false
	}
	var all []string
	for _, element := range jsonvalue.Elements(value) {
		one, ok := headerValues(element)
		if !ok || element[0] == '[' {
			return nil, false
		}
		all = append(all, one...)
	}
	return all, true
}

func isToken(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return s != "" && strings.Trim(s, letters) == ""
}

// isHeaderValue reports whether a text can be the value of a header, and stays one line.
func isHeaderValue[text string | []byte](s text) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

func isHost(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = s, "80"
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && !strings.ContainsAny(s, " \t/@?#\\,;") && isHeaderValue(s)
}

// redact returns the data of a request as it may be recorded: without the credentials in its
// URL, its headers and its body.
func redact(data json.RawMessage) json.RawMessage {
	return jsonscan.ReplaceMembers(data, func(name string, value []byte) string {
		switch {
		case name == "url" && value[0] == '"':
			return string(jsonscan.AppendQuoted(nil, secret.URL(jsonscan.Unquote(value))))
		case name == "body" && value[0] == '"':
			return string(jsonscan.AppendQuoted(nil, secret.Form(jsonscan.Unquote(value))))
		case name == "headers":
			return string(jsonscan.ReplaceMembers(value, func(name string, _ []byte) string {
				if secret.Named([]byte(name), secret.Request) {
					return secret.RedactedJSON
				}
				return ""
			}))
		}
		return ""
	})
}
