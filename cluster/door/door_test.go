package door_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kernos/cluster/door"
	"kernos/internal/testkit"
)

// Only a node that knows the key and the certificate is let in, and only an owner lets in.
func TestTheKeyOfADoor(t *testing.T) {
	var log testkit.Notes
	d, err := door.Open(&door.Options{Listen: "127.0.0.1:0", Log: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Serve(ctx, func(*door.Conn) error { return door.ErrElsewhere }) }()
	lines := door.Visitor{Kind: door.UnixLines}
	info := d.Info()
	if _, err := door.Dial(ctx, info, lines); !errors.Is(err, door.ErrElsewhere) {
		t.Errorf("a node that isn't the owner: %v", err)
	}
	wrong := info
	wrong.Key = "x"
	if _, err := door.Dial(ctx, wrong, lines); err == nil || errors.Is(err, door.ErrElsewhere) {
		t.Errorf("a wrong key: %v", err)
	}
	if !log.Has("refused", "wrong key") {
		t.Errorf("the log has %s", log.String())
	}
	wrong = info
	wrong.Pin = strings.Repeat("0", 64)
	if _, err := door.Dial(ctx, wrong, lines); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a wrong certificate: %v", err)
	}
	if _, err := door.Dial(ctx, info, door.Visitor{Kind: door.TCP, Remote: "here"}); err == nil {
		t.Error("a visitor without addresses is let in")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
