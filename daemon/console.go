package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"kernos/capability/token"
	"kernos/console"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	httpd "kernos/transport/http"
)

// ConsoleType is the syscall that makes a link into the console. It is the owner's alone.
const ConsoleType message.Type = "Kernel.Console"

// ConsoleRequest is the input of ConsoleType.
type ConsoleRequest struct {
	Owner bool `json:"owner,omitzero" jsonschema_description:"Whether the browser gets the owner's rights, for an hour."`
}

// ConsoleLink is the reply of ConsoleType.
type ConsoleLink struct {
	URL string `json:"url" jsonschema:"writeOnly=true" jsonschema_description:"The address that lets one browser of this machine in, within a minute. It is not recorded."`
}

// ownerHour is how long a browser acts for the owner. Then it is a console as others are.
const ownerHour = time.Hour

// openConsole makes the console, and the syscall that gives links into it.
func (d *Daemon) openConsole() error {
	d.console = console.New(console.Options{Home: d.homeMark(), Enrol: d.enrolBrowser, Who: d.describeBrowser, Leave: d.signOut, Now: d.opts.Now})
	return d.kernel.Registry().AddSyscall(kernel.Module{Name: "kernel"}, kernel.Command(
		kernel.Definition{
			Type:    ConsoleType,
			Summary: "Make a link that lets a browser of this machine into the console: it can be used once, within a minute.",
			Presentation: kernel.Presentation{
				Errors: []kernel.ErrorDefinition{
					{Code: 403, When: "something else than a client of the owner asks: a browser, a session, a job or code"},
					{Code: 503, When: "this kernel is served at no address that a browser reaches"},
				},
				Visibility: kernel.Hidden,
			},
			Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToTokens}},
			Access:   principal.OwnerOnly,
		},
		func(ctx context.Context, in ConsoleRequest) (ConsoleLink, error) {
			if call, ok := kernel.CallOf(ctx); !ok || !call.Direct() || call.Principal() != principal.TheOwner() {
				return ConsoleLink{}, message.Errorf(403, "A link into the console is made by the owner over the unix socket of the daemon, and by nothing that acts for the owner; type kernos console in a terminal")
			}
			url, err := d.ConsoleURL(in.Owner)
			return ConsoleLink{url}, err
		},
	))
}

// ConsoleURL makes a link into the console, for an hour with the owner's rights if owner is set.
func (d *Daemon) ConsoleURL(owner bool) (string, error) {
	for _, url := range d.URLs() { // no URLs if there is no console
		if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
			return url + "/" + d.console.Link(owner), nil
		}
	}
	return "", message.Errorf(503, "This kernel is served at no address that a browser reaches; start it with kernos serve --addr 127.0.0.1:7420")
}

// homeMark tells this home apart from others that a browser knows under the same address, at other times.
func (d *Daemon) homeMark() string {
	sum := sha256.Sum256([]byte(d.home.State()))
	return hex.EncodeToString(sum[:4])
}

func (d *Daemon) consoleGuard() *httpd.ConsoleGuard {
	return &httpd.ConsoleGuard{Public: console.Public, Prove: d.proveBrowser, Cookie: "kernos-" + d.homeMark()}
}

// proveBrowser returns the principal of a browser that proves that it holds an enrolled key.
func (d *Daemon) proveBrowser(r *http.Request, text string) (*principal.Principal, error) {
	proof, err := d.console.Proof(r, text)
	if err != nil {
		return nil, err
	}
	return d.tokens.Prove(proof.Name, func(k token.Key) bool { return proof.Holds(k.Public, k.Origin) })
}

// asOwner returns a context with which the daemon acts for the owner, who has made the link that a browser has followed.
func asOwner(ctx context.Context) context.Context {
	return kernel.ActFor(context.WithoutCancel(ctx), kernel.From(principal.TheOwner(), "console"))
}

// enrolBrowser makes the token of a browser.
func (d *Daemon) enrolBrowser(ctx context.Context, b console.Browser, owner bool) (name string, err error) {
	var made token.Info
	err = d.ask(asOwner(ctx), "Token.Enrol", message.KindCommand, token.Key{Public: b.Public, Origin: b.Origin, Agent: b.Name}, &made)
	if err == nil && owner {
		err = d.tokens.Lend(made.Name, d.opts.Now().Add(ownerHour))
	}
	return made.Name, err
}

// A browserInfo is what the page is told about its browser.
type browserInfo struct {
	Name    string         `json:"name"`
	Expires int64          `json:"expires"`
	Owner   int64          `json:"owner,omitzero"` // until when it acts for the owner
	Hidden  []hiddenMethod `json:"hidden"`

	// Types has the names of the syscalls whose methods, as Memory.Get is memory_get, don't spell them.
	Types map[string]message.Type `json:"types"`
}

// A hiddenMethod is a method that the browser may not call, and why.
type hiddenMethod struct {
	Method string `json:"method"`
	Why    string `json:"why"`
}

// describeBrowser describes the browser that is the caller of the context, and reports whether it is one.
func (d *Daemon) describeBrowser(ctx context.Context) (any, bool) {
	p := kernel.SenderIn(ctx).Principal()
	known, ok := d.tokens.BrowserOf(p)
	if !ok {
		return nil, false
	}
	info := browserInfo{Name: known.Name, Expires: known.Expires, Hidden: []hiddenMethod{}, Types: map[string]message.Type{}}
	if p.IsOwner() {
		info.Owner = known.Browser.Owner
	}
	for s := range d.kernel.Registry().All().Syscalls() {
		if name := kernel.MethodName(s.Type); kernel.TypeOf(name) != s.Type {
			info.Types[name] = s.Type
		}
		if why := p.Reason(s.Target()); why != "" && !p.IsOwner() {
			namespace, method := kernel.Method(s.Type)
			info.Hidden = append(info.Hidden, hiddenMethod{namespace + "." + method, why})
		}
	}
	slices.SortFunc(info.Hidden, func(a, b hiddenMethod) int { return strings.Compare(a.Method, b.Method) })
	return info, true
}

// signOut takes the token of the caller back.
func (d *Daemon) signOut(ctx context.Context) {
	known, ok := d.tokens.BrowserOf(kernel.SenderIn(ctx).Principal())
	if !ok {
		return
	}
	if err := d.ask(asOwner(ctx), "Token.Revoke", message.KindCommand, map[string]string{"name": known.Name}, nil); err != nil {
		d.opts.Log.Error("a browser can't be signed out; kernos token revoke does it", "token", known.Name, "error", err)
	}
}
