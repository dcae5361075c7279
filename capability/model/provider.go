package model

import (
	"cmp"
	"net"
	nethttp "net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/sealed"
	"kernos/message"
)

// A provider is where a model is, and how to talk to it: the settings models/NAME.
type provider struct {
	Dialect       string         `json:"dialect"`
	BaseURL       string         `json:"baseUrl,omitzero"`
	Model         string         `json:"model,omitzero"`         // the name of the model at the provider
	Key           string         `json:"key,omitzero"`           // sealed for the host of baseUrl
	Type          message.Type   `json:"type,omitzero"`          // for the dialect syscall: the syscall that generates
	Cassette      string         `json:"cassette,omitzero"`      // for the dialect replay: the cassette that is played
	Pace          float64        `json:"pace,omitzero"`          // how fast it is played: 1 is as it was recorded; default: at once
	Record        string         `json:"record,omitzero"`        // the cassette that exchanges are added to
	ContextWindow int            `json:"contextWindow,omitzero"` // how many tokens a conversation may have
	MaxTokens     int            `json:"maxTokens,omitzero"`     // how many tokens an answer may have, unless the request sets it
	Price         price          `json:"price,omitzero"`
	Quirks        []string       `json:"quirks,omitzero"`
	Extra         jsontext.Value `json:"extra,omitzero"`   // members that are added to each request
	Retries       *int           `json:"retries,omitzero"` // how often a failed request is repeated; default 4

	name      string
	source    string // memory, config or built-in
	url       *url.URL
	transport nethttp.RoundTripper // plays a cassette; nil means the network
}

// price is what a million tokens cost.
type price struct {
	Input      float64  `json:"input,omitzero"`
	Output     float64  `json:"output,omitzero"`
	Cached     *float64 `json:"cached,omitzero"`     // read from a cache; default: as input
	CacheWrite *float64 `json:"cacheWrite,omitzero"` // written to a cache; default: as input
}

const (
	replayed      = "replay"
	servedDialect = "syscall"
)

// quirks are what servers of a dialect want otherwise than the others.
var quirks = map[string]string{
	"max-completion-tokens": "the limit of an answer is max_completion_tokens",
	"developer-role":        "the system message has the role developer",
	"no-stream-options":     "stream_options are refused",
	"prompt-cache-key":      "prompt_cache_key is understood",
	"send-reasoning":        "reasoning is sent back as reasoning_content",
	"no-cache-control":      "cache_control is refused",
}

// use returns what the key is opened for.
func (p *provider) use() sealed.Use {
	port := cmp.Or(p.url.Port(), map[string]string{"http": "80", "https": "443"}[p.url.Scheme])
	return sealed.Use{Syscall: string(generate.Type), Hosts: []string{net.JoinHostPort(p.url.Hostname(), port)}}
}

// host returns the host of the provider, with its port if it has an unusual one, as a key is sealed for it.
func (p *provider) host() string { return strings.ToLower(p.url.Host) }

// identity returns what distinguishes models: what one of them has signed means nothing to another.
func (p *provider) identity() string {
	if p.url == nil {
		return string(p.Type) + "/" + p.Model
	}
	return p.url.Host + "/" + p.Model
}

func (p *provider) has(quirk string) bool { return slices.Contains(p.Quirks, quirk) }

// priced adds the cost to what an answer took.
func (p *provider) priced(u conversation.Usage) conversation.Usage {
	if p.Price == (price{}) {
		return u // a program may know what it costs
	}
	each := func(own *float64) float64 {
		if own != nil {
			return *own
		}
		return p.Price.Input
	}
	fresh := max(u.Input-u.Cached-u.Written, 0)
	u.Cost = (float64(fresh)*p.Price.Input + float64(u.Cached)*each(p.Price.Cached) + float64(u.Written)*each(p.Price.CacheWrite) + float64(u.Output)*p.Price.Output) / 1e6
	return u
}
