package mcphost

import (
	"context"

	"kernos/capability/mcphost/client"
	"kernos/kernel"
)

// oauthClient is what an authorization server knows this kernel by.
type oauthClient struct {
	ID     string `json:"id" jsonschema:"minLength=1,maxLength=512" jsonschema_description:"The client id."`
	Secret string `json:"secret,omitzero" jsonschema:"format=password,writeOnly=true" jsonschema_description:"The client secret. It is kept sealed."`
}

// A login is a call during which a person can log in.
type login struct {
	s      *server
	stream *kernel.Stream
}

func (s *server) authorizer(_ context.Context, _ *record, _ *login) (client.Authorizer, error) {
	return nil, nil
}
