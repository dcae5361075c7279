package conformance

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/message"
)

// TestAHomeOfVersion040Opens opens a home that version 0.4.0 has written. The archive in testdata
// was packed after a clean stop of that version, and is never made again.
func TestAHomeOfVersion040Opens(t *testing.T) {
	home := t.TempDir()
	unpack(t, "testdata/home-0.4.0.tar.gz", home)
	d, err := daemon.Open(&daemon.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	ask := asker(t, d)
	for _, c := range []struct {
		typ        message.Type
		data, want string // want is part of the reply
	}{
		{"Memory.Get", `{"key":"notes/1"}`, `"coffee"`},
		{"Memory.Get", `{"key":"notes/2"}`, `{"a":[1,2.5,null]}`},
		{"Memory.Get", `{"key":"big"}`, strings.Repeat("x", 12000)},
		{"Memory.Get", `{"key":"long"}`, strings.Repeat("a long text. ", 3000)},
		{"Memory.History", `{"key":"notes/1"}`, `"value":"tea"`},
		{"Memory.List", `{"prefix":"notes"}`, `notes/2`},
		{"VFS.Read", `{"uri":"os://memory/files/hello.txt"}`, `"content":"hello"`},
		{"Crypto.Open", `{"ciphertext":"` + sealedBy040 + `"}`, `the secret of version 0.4.0`},
		{"Message.Get", `{"id":"slow-7"}`, `"payload":{"n":7}`},
		{"Message.Get", `{"id":"burst-4321"}`, `"payload":{"n":4321,"word":"burst53"}`},
		{"Message.Search", `{"query":"burst42","limit":5}`, `"word":"burst42"`},
		{"Message.Graph", `{"correlationId":"shopping"}`, `set-2`},
	} {
		if got := string(ask(c.typ, c.data)); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %.300s, without %.100s", c.typ, c.data, got, c.want)
		}
	}
	for correlation, want := range map[string]int{"shopping": 6, "slowly": 40, "burst/7": 200} {
		var list struct{ Messages []json.RawMessage }
		if err := json.Unmarshal(ask("Message.List", fmt.Sprintf(`{"correlation":%q,"limit":500}`, correlation)), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Messages) != want {
			t.Errorf("workflow %s has %d messages, want %d", correlation, len(list.Messages), want)
		}
	}

	// Who sent them was not recorded then: they are the owner's.
	var list struct {
		Records []struct{ Principal, PrincipalID, Wire string }
	}
	if err := json.Unmarshal(ask("Message.List", `{"correlation":"shopping","records":true,"principal":"owner"}`), &list); err != nil || len(list.Records) != 6 {
		t.Errorf("the owner has %d messages of the workflow, %v", len(list.Records), err)
	}
	for _, r := range list.Records {
		if r.Principal != "owner" || r.PrincipalID != "" || r.Wire != "" {
			t.Errorf("a message of version 0.4.0 belongs to %+v", r)
		}
	}

	// It is a home like any other: what is written now is there too.
	if _, err := d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: "Memory.Set",
		Data: []byte(`{"key":"notes/1","value":"water"}`)}, nil); err != nil {
		t.Fatal(err)
	}
	if got := string(ask("Memory.History", `{"key":"notes/1"}`)); !strings.Contains(got, "water") || !strings.Contains(got, "tea") {
		t.Errorf("history after a new version: %s", got)
	}
}

// asker returns a function that sends a query for the owner, and returns the reply, which may be in a blob.
func asker(t *testing.T, d *daemon.Daemon) func(message.Type, string) json.RawMessage {
	blob := func(data json.RawMessage) json.RawMessage {
		var ref struct{ DataRef message.BlobPointer }
		if err := json.Unmarshal(data, &ref); err != nil || ref.DataRef.Path == "" {
			return data
		}
		content, err := os.ReadFile(ref.DataRef.Path)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	return func(typ message.Type, data string) json.RawMessage {
		t.Helper()
		answer, err := d.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: typ, Data: []byte(data)}, nil)
		if err != nil {
			t.Fatalf("%s %s: %v", typ, data, err)
		}
		if answer.Kind != message.KindReply {
			t.Fatalf("%s %s: %s", typ, data, answer.Data)
		}
		return blob(answer.Data)
	}
}

// TestAHomeOfVersion0180Opens opens a home that version 0.18.0 has written, packed as the one of version 0.4.0 was, without its
// log and its compiled engine. What kernos prints about it is tested in cmd/kernos.
func TestAHomeOfVersion0180Opens(t *testing.T) {
	home := t.TempDir()
	unpack(t, "testdata/home-0.18.0.tar.gz", home)
	then := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC) // the day after, when nothing in it had expired
	d, err := daemontest.Open(&daemon.Options{Home: home, Now: func() time.Time { return then }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	ask := asker(t, d)
	testkit.Until(t, "the engine is compiled, and code runs", func() bool {
		answer, err := d.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: "Text.Own", Data: []byte(`{}`)}, nil)
		return err == nil && answer.Kind == message.KindReply
	})
	for _, c := range []struct {
		typ        message.Type
		data, want string // want is part of the reply
	}{
		{"Memory.Get", `{"key":"notes/1"}`, `"coffee"`},
		{"Memory.History", `{"key":"notes/1"}`, `"value":"milk"`},
		{"Memory.Get", `{"key":"from/job"}`, `1`},
		{"Memory.Get", `{"key":"sister-name"}`, `"Ada"`},
		{"VFS.Read", `{"uri":"os://memory/files/hello.txt"}`, `"content":"hello"`},
		{"Crypto.Open", `{"ciphertext":"` + sealedBy0180 + `"}`, `the secret of version 0.18.0`},
		{"Message.Get", `{"id":"shop-1"}`, `"bread"`},
		{"Message.List", `{"correlation":"shopping"}`, `"shop-2"`},
		{"Message.Search", `{"query":"bread"}`, `"shop-1"`},
		{"Job.Status", `{"jobId":"01M7RPNB0S4CGTDY8W890RMDVM"}`, `"status":"completed"`},
		{"Job.List", `{}`, `"schedule":"0 0 1 1 *"`},
		{"Session.List", `{}`, `Remember that my sister is called Ada`},
		{"Session.Messages", `{"session":"01M7RPNB6GK43Z9TQG8DGPH7ZQ"}`, `I will remember that your sister is called Ada.`},
		{"Vector.Query", `{"collection":"docs","text":"I forgot my password"}`, `"id":"reset"`},
		{"Token.List", `{}`, `"name":"ci"`},
		{"Token.List", `{}`, `"name":"console-s7dkeyuf"`},
		{"Text.Own", `{}`, `registered by hand`},
		{"Syscall.Versions", `{"name":"Folder.Hello"}`, `os://syscalls/Folder.Hello.ts`},
		{"Job.Status", `{"jobId":"01M7RPNB2AXG54E721SGB2N19N"}`, `"why":"it is code of the file os://syscalls/Folder.Hello.ts of a folder that isn't trusted; kernos trust DIR brings it back`},
	} {
		if got := string(ask(c.typ, c.data)); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %.300s, without %s", c.typ, c.data, got, c.want)
		}
	}
	if away := d.AwayNames(); len(away) != 1 || away[0] != "Folder.Hello" {
		t.Errorf("of the code of folders, %v isn't served", away)
	}
}

// sealedBy0180 was sealed with the key file of the home.
const sealedBy0180 = "pwenc:v1:eyJ2IjoxLCJraWQiOiJrZXJub3MtbG9jYWw6U0hBMjU2OlF5NE9xeklrbGZKRzhCZzFVRXlkNFJoU2QtT1RpaUJlcjgwUFFWM2dBUW8iLCJhbGciOiJBMjU2R0NNIiwibm9uY2UiOiJkdGFteWNYUklMTllyMDRXIiwiY3QiOiJMLVRxc0h0SzBFdTNrTGE2YkR4WnBnNFJFb1dueG9ETFRhblVMZWJwOVlyN1gxTmxDVHlUbnVYcGJZQSJ9"

// sealedBy040 was sealed with the key file of the home.
const sealedBy040 = "pwenc:v1:eyJ2IjoxLCJraWQiOiJrZXJub3MtbG9jYWw6U0hBMjU2OjFyRS1tOHRXRDlCVk5aVzVtSWxXWV9xMjgyR2ZiWTU4SVpPWDlEN295cVkiLCJhbGciOiJBMjU2R0NNIiwibm9uY2UiOiJ2aEhGeXFYQXBlaWpRLWdXIiwiY3QiOiJjLVZEaV9WQ2k5a3dUZ0c1dkZlWC1oaFJDVE8tdnNGMGJ2QVBNRmw4YnRMVHlhaGZWekFFUElyTHpRIn0"

// unpack writes the files of a .tar.gz archive into a directory.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o700)
		} else if content, readErr := io.ReadAll(r); readErr != nil {
			err = readErr
		} else {
			err = os.WriteFile(name, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
