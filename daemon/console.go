package daemon

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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

// ConsoleLink is the reply of ConsoleType.
type ConsoleLink struct {
	URL string `json:"url" jsonschema:"writeOnly=true" jsonschema_description:"The address that lets one browser of this machine in, within a minute. It is not recorded."`
}

const (
	// consoleTokens begins the names of the tokens that browsers are signed in with.
	consoleTokens = "console-"

	// consoleLife is how long a browser stays signed in.
	consoleLife = 30 * 24 * time.Hour
)

// openConsole makes the console, and the syscall that gives links into it.
func (d *Daemon) openConsole() error {
	d.console = console.New(console.Options{Cookie: d.consoleCookie(), SignIn: d.signIn, SignedIn: signedIn, SignOut: d.signOut, Now: d.opts.Now})
	return d.kernel.Registry().AddSyscall(kernel.Module{Name: "kernel"}, kernel.Command(
		kernel.Definition{
			Type:       ConsoleType,
			Access:     principal.OwnerOnly,
			Reaches:    []kernel.Reach{kernel.ToTokens},
			Summary:    "Make a link that lets a browser of this machine into the console: it can be used once, within a minute.",
			Errors:     []kernel.ErrorDefinition{{Code: 503, When: "this kernel is served at no address that a browser reaches"}},
			Visibility: kernel.Hidden,
		},
		func(context.Context, struct{}) (ConsoleLink, error) {
			url, err := d.ConsoleURL()
			return ConsoleLink{url}, err
		},
	))
}

// ConsoleURL makes a link into the console.
func (d *Daemon) ConsoleURL() (string, error) {
	for _, url := range d.URLs() { // no URLs if there is no console
		if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
			return url + "/" + d.console.Link(), nil
		}
	}
	return "", message.Errorf(503, "This kernel is served at no address that a browser reaches; start it with kernos serve --addr 127.0.0.1:7420")
}

// consoleCookie returns the name of the cookie of this home: browsers keep the cookies of all ports
// of a machine together.
func (d *Daemon) consoleCookie() string {
	sum := sha256.Sum256([]byte(d.home.State()))
	return "kernos-" + hex.EncodeToString(sum[:4])
}

func (d *Daemon) consoleGuard() *httpd.ConsoleGuard {
	return &httpd.ConsoleGuard{
		Cookie: d.consoleCookie(), Authenticate: d.tokens.Authenticate, EnterPath: console.EnterPath, Refuse: console.Refuse,
	}
}

// signIn makes a token for a browser.
func (d *Daemon) signIn(ctx context.Context) (secret string, life time.Duration, err error) {
	ctx = kernel.ActFor(ctx, kernel.From(principal.TheOwner(), "console"))
	var all struct{ Tokens []token.Info }
	if err := d.ask(ctx, "Token.List", message.KindQuery, struct{}{}, &all); err != nil {
		return "", 0, err
	}
	for _, t := range all.Tokens {
		if strings.HasPrefix(t.Name, consoleTokens) && t.Expired {
			if err := d.ask(ctx, "Token.Revoke", message.KindCommand, map[string]string{"name": t.Name}, nil); err != nil {
				return "", 0, err
			}
		}
	}
	var made struct{ Token string }
	err = d.ask(ctx, "Token.Create", message.KindCommand, map[string]any{
		"name": consoleTokens + strings.ToLower(rand.Text()[:8]), "preset": principal.Console, "expires": d.opts.Now().Add(consoleLife).UnixMilli(),
	}, &made)
	return made.Token, consoleLife, err
}

// signedIn reports whether the caller of the context is a browser.
func signedIn(ctx context.Context) bool {
	return strings.HasPrefix(kernel.SenderIn(ctx).Principal().Name(), consoleTokens)
}

// signOut takes the token of the caller back.
func (d *Daemon) signOut(ctx context.Context) {
	name := kernel.SenderIn(ctx).Principal().Name()
	ctx = kernel.ActFor(context.WithoutCancel(ctx), kernel.From(principal.TheOwner(), "console"))
	if err := d.ask(ctx, "Token.Revoke", message.KindCommand, map[string]string{"name": name}, nil); err != nil {
		d.opts.Log.Error("a browser can't be signed out; kernos token revoke does it", "token", name, "error", err)
	}
}
