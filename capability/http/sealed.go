package http

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"slices"

	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/message"
)

// useOf returns the use of a secret that a request sends: both the host that it goes to and the one
// that it names, to which a server may hand it on, see it.
func useOf(u *url.URL, named string) sealed.Use {
	use := sealed.Use{Syscall: "Http.Fetch", Hosts: []string{net.JoinHostPort(u.Hostname(), portOf(u))}}
	if other := (&url.URL{Scheme: u.Scheme, Host: named}); named != "" && named != u.Host {
		use.Hosts = append(use.Hosts, net.JoinHostPort(other.Hostname(), portOf(other)))
	}
	return use
}

// open puts what is in the sealed strings of a request's headers in their place.
func (f *fetcher) open(ctx context.Context, r *request) error {
	var found []string
	use := useOf(r.url, r.host)
	for name := range r.sealed {
		for i, value := range r.header[name] {
			plain, err := sealed.Replace(value, func(text string) ([]byte, error) {
				opened, to, err := f.openOne(ctx, name, text, use)
				found = append(found, string(opened))
				r.sealed[name] = append(r.sealed[name], to)
				return opened, err
			})
			if err != nil {
				return err
			}
			r.header[name][i] = plain
		}
	}
	r.secrets = secret.Opened(found)
	return nil
}

// stays reports whether the header of a request may be sent to where a redirect leads.
func (r *request) stays(name string, next sealed.Use) bool {
	return !slices.ContainsFunc(r.sealed[name], func(to sealed.Destination) bool { return to.Refuses(next) != nil })
}

func (f *fetcher) openOne(ctx context.Context, name, text string, use sealed.Use) ([]byte, sealed.Destination, error) {
	unsent := func(cause *message.Error) *message.Error {
		code := 422
		if cause.Code == 403 {
			code = 403
		}
		return &message.Error{Code: code, Field: "headers", Cause: cause,
			Message: "The request was not sent: a sealed string in the header " + name + " can't be opened"}
	}
	if f.Open == nil {
		return nil, nil, unsent(message.Errorf(422, "This kernel has nothing that opens sealed strings"))
	}
	plain, to, err := f.Open(ctx, text, use)
	plain = sealed.Line(plain)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, err
	case err != nil:
		cause, _ := message.ErrorOf(err)
		return nil, nil, unsent(cause)
	case !isHeaderValue(plain):
		return nil, nil, unsent(message.Errorf(422, "What is in it has a line break or another control character, which no header can have; seal it without"))
	case len(bytes.Trim(plain, " \t")) < secret.MinValue:
		return nil, nil, unsent(message.Errorf(422, "What is in it has fewer than %d bytes, too few to be kept out of the answer; if it isn't a secret, send it as it is", secret.MinValue))
	}
	return plain, to, nil
}
