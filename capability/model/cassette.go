package model

import (
	nethttp "net/http"

	"kernos/message"
)

// players are the cassettes that are played.
type players struct{}

func (m *models) play(p *provider) (*provider, error) {
	return nil, message.Errorf(501, "Cassettes can't be played yet")
}

func (m *models) transport(p *provider, key string) nethttp.RoundTripper {
	if p.transport != nil {
		return p.transport
	}
	return m.Client.Transport
}
