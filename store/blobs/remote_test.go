package blobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"kernos/message"
	"kernos/store/blobs"
)

func newRemote(t testing.TB, authority string) *blobs.Remote {
	t.Helper()
	dir, err := blobs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &blobs.Remote{Dir: dir, Authority: authority}
}

func TestPointersAreTranslated(t *testing.T) {
	r := newRemote(t, "agent.example.com:7420")
	h := blobs.Sum([]byte("data"))
	ours, _ := json.Marshal(r.Dir.Pointer(h))
	theirs := `{"scheme":"https","authority":"agent.example.com:7420","path":"/v1/blobs/` + h.String() + `"}`
	for in, want := range map[string]string{
		string(ours):                                  theirs,
		`{"bodyRef":` + string(ours) + `,"n":1}`:      `{"bodyRef":` + theirs + `,"n":1}`,
		`[` + string(ours) + `,` + string(ours) + `]`: `[` + theirs + `,` + theirs + `]`,
		`{"scheme":"file","path":"/etc/passwd"}`:      `{"scheme":"file","path":"/etc/passwd"}`,
		// What only looks like one, since it stands in a string, is none.
		`"` + strings.ReplaceAll(string(ours), `"`, `\"`) + `"`: `"` + strings.ReplaceAll(string(ours), `"`, `\"`) + `"`,
		// Nor is what has more to say.
		strings.Replace(string(ours), "}", `,"fragment":"x"}`, 1): strings.Replace(string(ours), "}", `,"fragment":"x"}`, 1),
	} {
		if got := string(r.Outward([]byte(in))); got != want {
			t.Errorf("%s became %s", in, got)
		}
		if got := string(r.Inward(r.Outward([]byte(in)))); got != in {
			t.Errorf("%s came back as %s", in, got)
		}
	}
	for _, absent := range []*blobs.Remote{nil, newRemote(t, "")} {
		if got := string(absent.Outward(ours)); got != string(ours) {
			t.Errorf("without an address: %s", got)
		}
		if got := string(absent.Inward([]byte(theirs))); got != theirs {
			t.Errorf("without an address: %s", got)
		}
	}
}

func TestARemoteCallerIsConfined(t *testing.T) {
	r := newRemote(t, "agent.example.com")
	blob, err := r.Dir.Put([]byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	resolver := &blobs.Resolver{Dir: r.Dir}
	away := blobs.WithRemote(context.Background(), r)
	if _, err := resolver.Resolve(away, message.FileBlob("/etc/hostname")); code(err) != 403 {
		t.Errorf("a file of the machine: %v", err)
	}
	https := message.BlobPointer{Scheme: "https", Authority: "agent.example.com", Path: blobs.PathPrefix + blob.Hash.String()}
	for _, p := range []message.BlobPointer{blob.Pointer(), https} {
		if data, err := resolver.Resolve(away, p); err != nil || string(data) != "data" {
			t.Errorf("%s: %q, %v", p, data, err)
		}
	}
	// The owner of the machine means another server by it, and there is no client.
	if _, err := resolver.Resolve(context.Background(), https); code(err) != 403 {
		t.Errorf("%v", err)
	}
	https.Authority = "other.example.com"
	if _, err := resolver.Resolve(away, https); code(err) != 403 {
		t.Errorf("another server: %v", err)
	}
}

// What is valid JSON stays that, and nothing is lost on the way there and back.
func FuzzTranslate(f *testing.F) {
	r := newRemote(f, "agent.example.com")
	pointer, _ := json.Marshal(r.Dir.Pointer(blobs.Sum(nil)))
	f.Add([]byte(`{"a":` + string(pointer) + `}`))
	f.Add([]byte(`{"scheme":"file","path":"`))
	f.Add([]byte(`"\"{\"scheme\":\"file\",\"path\":\""`))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		out := r.Outward(data)
		if !bytes.Equal(data, before) {
			t.Fatal("the text was changed in place")
		}
		if json.Valid(data) && !json.Valid(out) {
			t.Errorf("%s became %s", data, out)
		}
		if !bytes.Equal(r.Outward(out), out) {
			t.Errorf("%s is not the same again", out)
		}
	})
}
