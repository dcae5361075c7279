package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"

	"kernos/capability/model/demo"
	"kernos/internal/nearest"
	"kernos/internal/sealed"
	"kernos/message"
)

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) })

// readProvider reads the settings of a model. The errors are for people, and don't quote the key.
func readProvider(name string, text json.RawMessage, builtIn func(message.Type) bool) (*provider, error) {
	p := &provider{name: name}
	if err := jsonv2.Unmarshal(text, p, jsonv2.RejectUnknownMembers(true)); err != nil {
		words := "a member has the wrong type"
		if at, ok := err.(*jsonv2.SemanticError); ok && at.JSONPointer != "" {
			words = "the member " + strings.TrimPrefix(string(at.JSONPointer), "/") + " is unknown or has the wrong type"
		}
		return nil, fmt.Errorf("%s; expected {dialect, baseUrl, model, key?, contextWindow?, maxTokens?, price?, quirks?, extra?, record?, retries?}", words)
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.Dialect == servedDialect && (!p.Type.Valid() || builtIn(p.Type)) {
		return nil, fmt.Errorf("type: the dialect syscall needs the name of a syscall that a program serves, such as Llama.Generate, got %q", message.Clip(string(p.Type), 64))
	}
	return p, nil
}

// standsForAnother reports whether the settings of a model are the name of another one.
func standsForAnother(text json.RawMessage) bool { return bytes.HasPrefix(text, []byte{'"'}) }

// standsFor returns the name that the settings of a model are; "" if they are settings.
func standsFor(text json.RawMessage) (name string) {
	if standsForAnother(text) {
		_ = json.Unmarshal(text, &name)
	}
	return name
}

// CheckSettings returns what is wrong with the settings of a model. For builtIn see [Options].
func CheckSettings(name string, text json.RawMessage, builtIn func(message.Type) bool) error {
	if !nameForm().MatchString(name) {
		return fmt.Errorf("expected a name of letters, digits, dots and dashes")
	}
	if standsForAnother(text) {
		return nil
	}
	_, err := readProvider(name, text, builtIn)
	return err
}

func (p *provider) check() (err error) {
	if p.Dialect != replayed && dialects[p.Dialect] == nil {
		known := slices.Sorted(maps.Keys(dialects))
		return fmt.Errorf("dialect: expected %s or %s, got %q", strings.Join(known, ", "), replayed, message.Clip(p.Dialect, 64))
	}
	for _, q := range p.Quirks {
		if quirks[q] == "" {
			return fmt.Errorf("quirks: expected some of %s, got %q", strings.Join(slices.Sorted(maps.Keys(quirks)), ", "), message.Clip(q, 64))
		}
	}
	if len(p.Extra) > 0 && p.Extra.Kind() != '{' {
		return fmt.Errorf("extra: expected an object")
	}
	for field, cassette := range map[string]string{"record": p.Record, "cassette": p.Cassette} {
		if cassette != "" && !nameForm().MatchString(cassette) {
			return fmt.Errorf("%s: expected a name of letters, digits, dots and dashes, got %q", field, message.Clip(cassette, 64))
		}
	}
	switch p.Dialect {
	case replayed:
		if p.Cassette == "" {
			return fmt.Errorf("cassette: the dialect replay needs the name of a cassette")
		}
		return nil
	case demo.Name, servedDialect:
		return nil
	}
	if p.url, err = url.Parse(p.BaseURL); err != nil || p.url.Scheme != "http" && p.url.Scheme != "https" || p.url.Hostname() == "" || p.url.User != nil || p.url.RawQuery != "" {
		return fmt.Errorf("baseUrl: expected a URL such as https://api.example.com/v1, without a password and parameters")
	}
	if p.Model == "" {
		return fmt.Errorf("model: the name of the model at the provider is missing")
	}
	return p.checkKey()
}

// checkKey makes sure that a key goes to its host only.
func (p *provider) checkKey() error {
	if p.Key == "" {
		return nil
	}
	box, err := sealed.Parse(p.Key)
	switch {
	case err != nil:
		return fmt.Errorf("key: expected a string that is sealed for the host: kernos crypto seal --for %s", p.host())
	case !box.For.NamesHost():
		return fmt.Errorf("key: it is sealed, but not for a host; seal it again: kernos crypto seal --for %s", p.host())
	}
	if err := box.For.Refuses(p.use()); err != nil {
		return fmt.Errorf("key: %w; seal it again: kernos crypto seal --for %s", err, p.host())
	}
	return nil
}

// defaultName is the model that is asked if the request names none.
const defaultName = "default"

// maxHops is how many names may stand for each other before one has settings.
const maxHops = 8

// find returns the provider with a name. A setting that is a text is the name of another one.
func (m *models) find(name string) (*provider, error) {
	known, err := m.names()
	if err != nil {
		return nil, err
	}
	if name == "" {
		configured := slices.DeleteFunc(slices.Clone(known), func(n string) bool { return n == demo.Name })
		switch {
		case slices.Contains(configured, defaultName):
			name = defaultName
		case len(configured) == 1:
			name = configured[0]
		case len(configured) == 0:
			name = demo.Name
		default:
			return nil, message.Invalid("model", "model: several models are configured, and none is named default; choose one of %s", message.Clip(strings.Join(configured, ", "), 200))
		}
	}
	text, source, err := m.setting(name)
	for hops := 0; err == nil && standsForAnother(text); hops++ {
		if hops == maxHops {
			return nil, message.Errorf(422, "The model %s stands for itself; set models/%s to the settings of a model, or to the name of one that has settings", name, name)
		}
		name = standsFor(text)
		text, source, err = m.setting(name)
	}
	if err != nil {
		if e, ok := message.ErrorOf(err); !ok || e.Code != 404 {
			return nil, err
		}
		return nil, notConfigured(name, known)
	}
	p, err := readProvider(name, text, m.BuiltIn)
	if err != nil {
		return nil, message.Errorf(422, "The settings of the model %s can't be used: models/%s: %v", name, name, err)
	}
	p.source = source
	if p.Dialect == replayed {
		return m.play(p)
	}
	return p, nil
}

// notConfigured returns the error for a name that no model has.
func notConfigured(name string, known []string) error {
	hint := nearest.Hint(name, known)
	if hint != "" {
		hint = ": " + hint
	}
	return message.Errorf(404, "The model %q isn't configured%s (Model.List lists those that are)", message.Clip(name, 64), hint)
}

// play returns a provider that plays a cassette in place of another one.
func (m *models) play(p *provider) (*provider, error) {
	settings, plays, err := m.cassettes.Play(p.Cassette, p.Pace)
	out := new(provider)
	if err == nil {
		err = jsonv2.Unmarshal(settings, out)
	}
	if err == nil {
		err = out.check()
	}
	if err != nil {
		return nil, message.Errorf(422, "The cassette of the model %s can't be played: %v", p.name, err)
	}
	out.name, out.source, out.Record = p.name, p.source, ""
	out.Retries, out.Price, out.transport = p.Retries, p.Price, plays
	return out, nil
}

// Where the settings of a model stand.
const (
	fromMemory = "memory"
	fromConfig = "config"
	builtIn    = "built-in"
)

// setting returns the settings of a model, and where they stand.
func (m *models) setting(name string) (text json.RawMessage, source string, err error) {
	missing := message.Errorf(404, "No setting models/%s", message.Clip(name, 64))
	if !nameForm().MatchString(name) {
		return nil, "", missing
	}
	if m.Read != nil {
		text, err := m.Read(name)
		if err == nil {
			return text, fromMemory, nil
		}
		if e, ok := message.ErrorOf(err); !ok || e.Code != 404 {
			return nil, "", err
		}
	}
	if text, ok := m.Configured[name]; ok {
		return text, fromConfig, nil
	}
	if name == demo.Name {
		return json.RawMessage(`{"dialect":"demo","contextWindow":512}`), builtIn, nil
	}
	return nil, "", missing
}

// names returns the names of all models, in order.
func (m *models) names() ([]string, error) {
	all := append(slices.Collect(maps.Keys(m.Configured)), demo.Name)
	if m.Names != nil {
		kept, err := m.Names()
		if err != nil {
			return nil, err
		}
		all = append(all, kept...)
	}
	slices.Sort(all)
	return slices.Compact(slices.DeleteFunc(all, func(n string) bool { return !nameForm().MatchString(n) })), nil
}

// list answers Model.List.
func (m *models) list(context.Context, struct{}) (listOutput, error) {
	out := listOutput{Models: []listed{}}
	known, err := m.names()
	if err != nil {
		return out, err
	}
	for _, name := range known {
		text, source, err := m.setting(name)
		if err != nil {
			return out, err
		}
		l := listed{Name: name, Source: source}
		if l.Model = standsFor(text); l.Model != "" {
			if _, err := m.find(name); err != nil {
				e, _ := message.ErrorOf(err)
				l.Problem = fmt.Sprintf("it stands for %s: %s", l.Model, lower(e.Message))
			}
		} else if p, err := readProvider(name, text, m.BuiltIn); err != nil {
			l.Problem = err.Error()
		} else {
			l.Dialect, l.Model, l.BaseURL, l.Type, l.Key = p.Dialect, p.Model, p.BaseURL, string(p.Type), p.Key != ""
			l.ContextWindow, l.Input, l.Output = p.ContextWindow, p.Price.Input, p.Price.Output
			if p.Dialect == demo.Name {
				l.About = demo.About
			}
		}
		out.Models = append(out.Models, l)
	}
	return out, nil
}

// ContextTokens returns how many tokens a conversation with a model may have beside its answer; 0 means
// that this isn't known, or that the model leaves out itself what doesn't fit. The error is that of
// [Module]'s Model.Generate: a 404 if the model isn't configured.
func (o *Options) ContextTokens(name string) (tokens int, err error) {
	p, err := newModels(o).find(name)
	if err != nil || p.ContextWindow == 0 || p.Dialect == demo.Name {
		return 0, err
	}
	answer := cmp.Or(p.MaxTokens, min(p.ContextWindow/4, 4096))
	return max(p.ContextWindow-answer, 1), nil
}
