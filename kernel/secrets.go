package kernel

import (
	"encoding/json"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
	"kernos/message"
)

// noSecrets says that a call knows none, as nearly all calls.
var noSecrets = new(secret.Values)

// setSecrets notes what [Redact] has taken out of the call's request, which left data, and
// what the calls that made this one know. Nothing that the call says may repeat these secrets
// to readers of the journal. The outcome is the same whenever it is computed.
func (c *Call) setSecrets(data json.RawMessage, changed bool) {
	if c.secrets.Load() != nil {
		return
	}
	known := c.caller.knownSecrets()
	if changed && jsonscan.Valid(c.request.Data) {
		known = secret.Taken(c.request.Data, data, known)
	}
	if known == nil {
		known = noSecrets
	}
	c.secrets.Store(known)
}

// knownSecrets returns the secrets that the call knows, nil if it knows none.
func (c *Call) knownSecrets() *secret.Values {
	if c == nil {
		return nil
	}
	if c.secrets.Load() == nil {
		r := Record{Message: &c.request, Way: In, Syscall: c.syscall}
		c.setSecrets(r.redact(secret.Look{Place: secret.Data}))
	}
	if known := c.secrets.Load(); known != noSecrets {
		return known
	}
	return nil
}

// hideSecrets takes the secrets that the call knows out of an error that a program fails with:
// an error is made to be shown, and its reader may not be the one who sent the request. The
// kernel's own errors hold no secrets, and are sent as they are.
func (c *Call) hideSecrets(m *message.Message) {
	known := c.knownSecrets()
	if known == nil {
		return
	}
	e, err := m.Failure()
	if err != nil {
		return // check has seen it
	}
	e = e.Map(known.Hide)
	m.Data = e.Append(nil)
	if m.Err != nil {
		m.Err = e
	}
}
