package http

import (
	"bytes"
	"context"
	nethttp "net/http"
	"slices"

	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/message"
)

// open returns the headers of the request with what is in their sealed strings, and the
// secrets among them. The request's own stay sealed.
func (f *fetcher) open(ctx context.Context, r *request) (nethttp.Header, *secret.Values, error) {
	if len(r.sealed) == 0 {
		return r.header, nil, nil
	}
	opened := r.header.Clone()
	var found []string
	for _, name := range r.sealed {
		for i, value := range opened[name] {
			plain, err := sealed.Replace(value, func(text string) ([]byte, error) {
				opened, err := f.openOne(ctx, name, text)
				if err == nil {
					found = append(found, string(opened))
				}
				return opened, err
			})
			if err != nil {
				return nil, nil, err
			}
			opened[name][i] = plain
		}
	}
	return opened, secret.Opened(found), nil
}

func (f *fetcher) openOne(ctx context.Context, name, text string) ([]byte, error) {
	unsent := func(cause *message.Error) *message.Error {
		return &message.Error{Code: 422, Field: "headers", Cause: cause,
			Message: "The request was not sent: a sealed string in the header " + name + " can't be opened"}
	}
	if f.opts.Open == nil {
		return nil, unsent(message.Errorf(422, "This kernel has nothing that opens sealed strings"))
	}
	plain, err := f.opts.Open(ctx, text)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		cause, _ := message.ErrorOf(err)
		return nil, unsent(cause)
	case !isHeaderValue(plain):
		return nil, unsent(message.Errorf(422, "What is in it has a line break or another control character"))
	case len(bytes.Trim(plain, " \t")) < secret.MinValue:
		return nil, unsent(message.Errorf(422, "What is in it has fewer than %d bytes, too few to be kept out of the answer; if it is no secret, send it as it is", secret.MinValue))
	}
	return slices.Clone(plain), nil
}
