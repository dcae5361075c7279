package http

import (
	"bytes"
	"context"

	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/message"
)

// open puts what is in the sealed strings of a request's headers in their place.
func (f *fetcher) open(ctx context.Context, r *request) error {
	var found []string
	for _, name := range r.sealed {
		for i, value := range r.header[name] {
			plain, err := sealed.Replace(value, func(text string) ([]byte, error) {
				opened, err := f.openOne(ctx, name, text)
				found = append(found, string(opened))
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

func (f *fetcher) openOne(ctx context.Context, name, text string) ([]byte, error) {
	unsent := func(cause *message.Error) *message.Error {
		return &message.Error{Code: 422, Field: "headers", Cause: cause,
			Message: "The request was not sent: a sealed string in the header " + name + " can't be opened"}
	}
	if f.Open == nil {
		return nil, unsent(message.Errorf(422, "This kernel has nothing that opens sealed strings"))
	}
	plain, err := f.Open(ctx, text)
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
	return plain, nil
}
