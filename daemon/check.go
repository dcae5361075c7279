package daemon

import (
	"maps"
	"os"
	"slices"

	"kernos/capability/content"
	"kernos/capability/crypto"
	"kernos/capability/model"
	"kernos/journal"
)

// Check reports what is wrong with the options, as far as that can be known before anything
// is opened. Errors are *OptionError.
func (o *Options) Check() error {
	if !slices.Contains([]content.Policy{"", content.ExecuteLocal, content.ExecuteNone}, o.Execute) {
		return wrong("execute", "expected local or none, got %q", o.Execute)
	}
	if o.Fetch.Retries < 0 || o.Fetch.Retries > 10 {
		return wrong("fetch-retries", "expected a number from 0 to 10, got %d", o.Fetch.Retries)
	}
	if age := o.Retention.MaxAge; age != 0 && age < journal.MinAge {
		return wrong("journal-age", "messages are kept for %v at least, got %v; 0 means no limit", journal.MinAge, age)
	}
	if err := crypto.CheckKey(o.Keys.Seal); err != nil {
		return &OptionError{"seal-key", err}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Models)) {
		if err := model.CheckSettings(name, o.Models[name], builtIn); err != nil {
			return wrong("models", "%s: %w", name, err)
		}
	}
	if err := checkEmbeddings(o.Embeddings); err != nil {
		return &OptionError{"embeddings", err}
	}
	if dir := o.Files.Directory; dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return wrong("directory", "%w; name a directory that exists", err)
		} else if !info.IsDir() {
			return wrong("directory", "%s is not a directory; name one", dir)
		}
	}
	if _, err := o.policy(); err != nil || o.Web == nil {
		return err
	}
	return o.Web.check(o.signed())
}

// check reports settings that contradict each other. Signed means that clients of the socket
// must sign.
func (w *Web) check(signed bool) error {
	switch {
	case (w.CertFile == "") != (w.KeyFile == ""):
		return wrong("tls-cert", "a certificate and its key belong together; give both tls-cert and tls-key, or none")
	case w.NoToken && w.TokenFile != "":
		return wrong("no-token", "contradicts token-file; leave one out")
	case w.Issuer != "" && (w.CertFile == "" || w.NoToken):
		return wrong("oauth-issuer", "clients get tokens of an authorization server for an address with TLS and a token only; give tls-cert and tls-key, and leave out no-token")
	case w.NoToken && signed:
		return wrong("no-token", "HTTP would let in callers that can't sign for auth-key; leave one of them out")
	case signed && w.Address != "" && !w.Optional && !w.InsecureWithoutSignature:
		return wrong("addr", "callers who know the token would be let in although they can't sign for auth-key; leave one of them out, or allow it with insecure-listen-without-signature")
	}
	_, err := w.guard()
	return err
}
