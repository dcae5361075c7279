package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/internal/durable"
	"kernos/store/replicated/jetstream"
	httpd "kernos/transport/http"
)

// The default token is the same on every node. It is in a file of each home, and the last message of a subject of the stream:
// the first node publishes its own, others write it into their file, and a new one replaces it everywhere. Who can
// read it in the stream can also read all that is replicated, which is what the token opens.

// sharedToken is a subject of the stream, as [jetstream.Stream] has it.
type sharedToken interface {
	Subject(tokens ...string) string
	Last(ctx context.Context, subject string) (jetstream.Message, error)
	Publish(ctx context.Context, m *nats.Msg, after uint64) (sequence uint64, err error)
}

// tokenFile returns the file with the default token.
func (m *Member) tokenFile() string { return cmp.Or(m.opts.Web.TokenFile, m.home.Token()) }

// tokenEvery is how often the token is compared with the others'.
const tokenEvery = 3 * time.Second

// shareToken makes the token of this node the one of the cluster.
func (m *Member) shareToken(ctx context.Context, stream sharedToken) error {
	_, err := m.syncToken(ctx, stream, "")
	return err
}

// keepToken keeps the token of this node equal to the others' until ctx is done.
func (m *Member) keepToken(ctx context.Context, stream sharedToken) {
	tick := time.NewTicker(tokenEvery)
	defer tick.Stop()
	text, _ := os.ReadFile(m.tokenFile())
	last := strings.TrimSpace(string(text))
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		asking, cancel := context.WithTimeout(ctx, tokenEvery)
		now, err := m.syncToken(asking, stream, last)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			m.log.Warn("the default token can't be compared with the other nodes'; trying again", "error", err)
		}
		failing = err != nil
		last = cmp.Or(now, last)
	}
}

// syncToken compares the token of this node with the cluster's. Last is what both were; "" means that the cluster's counts.
func (m *Member) syncToken(ctx context.Context, stream sharedToken, last string) (now string, err error) {
	subject := stream.Subject("token", strings.ReplaceAll(m.home.Origin.Folder(), ".", "-"))
	shared, err := stream.Last(ctx, subject)
	if err != nil {
		return "", err
	}
	file := m.tokenFile()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	own, theirs := strings.TrimSpace(string(text)), string(bytes.TrimSpace(shared.Data))
	switch {
	case theirs != "" && theirs == own:
		return own, nil
	case theirs != "" && (last == "" || theirs != last || own == ""):
		return theirs, durable.WriteFile(file, []byte(theirs+"\n"))
	}
	t, err := httpd.OpenToken(file) // makes one if there is none
	if err != nil {
		return "", err
	}
	if own, err = t.Value(); err != nil {
		return "", err
	}
	publish := nats.NewMsg(subject)
	publish.Header.Set("Nats-Rollup", "sub")
	publish.Data = []byte(own)
	if _, err = stream.Publish(ctx, publish, shared.Sequence); err != nil {
		return "", fmt.Errorf("the default token can't be shared: %w", err) // the next attempt finds out what the others have
	}
	return own, nil
}
