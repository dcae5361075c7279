package crypto

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kernos/internal/sealed"
	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
)

var update = flag.Bool("update", false, "make the vectors anew")

// node asks the program that was written from the description of the format alone.
func node(t *testing.T, request object) (text, kid string) {
	t.Helper()
	tool.Need(t, "node")
	in, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", filepath.Join("testdata", "pwenc.mjs"))
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Text, Kid string }
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Text, answer.Kid
}

// pemOf writes a private key for others.
func pemOf(t *testing.T, private any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// compatible are the keys that two programs share.
func compatible() map[string]any {
	return map[string]any{"ed25519": seedKey(1), "rsa": rsaKey()}
}

const secretText = "grüße, \"hunter2\"\n😀"

// TestOthersUnderstandUs seals on each side and opens on the other.
func TestOthersUnderstandUs(t *testing.T) {
	for name, private := range compatible() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, private)))})
			key := pemOf(t, private)
			ours := w.seal(secretText)
			text, kid := node(t, object{"do": "open", "key": key, "hash": "sha512", "text": ours})
			if text != secretText || kid != kidIn(t, ours) {
				t.Errorf("they read %q, with %s", text, kid)
			}
			bound := reply[string](w, "Seal", object{"plaintext": secretText, "aad": "für die Tür"})
			if text, _ := node(t, object{"do": "open", "key": key, "hash": "sha512", "text": bound}); text != secretText {
				t.Errorf("they read %q", text)
			}
			for _, request := range []object{
				{"hash": "sha512"},
				{"hash": "sha256"},
				{"hash": "sha1"},
				{"hash": "sha512", "aad": "für die Tür", "ts": 1735000000},
				{"hash": "sha512", "ts": "2024-12-24T00:26:40Z"},
			} {
				request["do"], request["key"], request["text"] = "seal", key, secretText
				theirs, _ := node(t, request)
				if got := w.open(theirs); got != secretText {
					t.Errorf("we read %q in %s", got, theirs)
				}
			}
		})
	}
}

// vector is a sealed string that was made once, and must open forever.
type vector struct {
	Key    string `json:"key"`    // which key
	Hash   string `json:"hash"`   // that RSA signs
	By     string `json:"by"`     // who has sealed it
	Text   string `json:"text"`   // what is in it
	AAD    string `json:"aad"`    //
	Sealed string `json:"sealed"` //
}

// TestVectors opens what was sealed long ago, with both programs.
func TestVectors(t *testing.T) {
	file := filepath.Join("testdata", "vectors.json")
	if *update {
		writeVectors(t, file)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(content, &vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		private := compatible()[v.Key]
		w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, private)))})
		if got, _, err := w.ring.Open(context.Background(), v.Sealed, sealed.Use{}); err != nil || string(got) != v.Text {
			t.Errorf("%s by %s: we read %q, %v", v.Key, v.By, got, err)
		}
		if got := reply[string](w, "Open", object{"ciphertext": v.Sealed, "aad": v.AAD}); got != v.Text {
			t.Errorf("%s by %s: we read %q", v.Key, v.By, got)
		}
		if got, _ := node(t, object{"do": "open", "key": pemOf(t, private), "hash": v.Hash, "text": v.Sealed}); got != v.Text {
			t.Errorf("%s by %s: they read %q", v.Key, v.By, got)
		}
	}
}

func writeVectors(t *testing.T, file string) {
	t.Helper()
	var vectors []vector
	for _, v := range []vector{
		{Key: "ed25519", By: "node", Text: secretText},
		{Key: "ed25519", By: "node", Text: "", AAD: "vault/door"},
		{Key: "rsa", Hash: "sha512", By: "node", Text: secretText},
		{Key: "rsa", Hash: "sha256", By: "node", Text: secretText},
		{Key: "rsa", Hash: "sha1", By: "node", Text: secretText},
		{Key: "ed25519", By: "kernos", Text: secretText},
		{Key: "ed25519", By: "kernos", Text: "", AAD: "vault/door"},
		{Key: "rsa", Hash: "sha512", By: "kernos", Text: secretText},
	} {
		private := compatible()[v.Key]
		if v.By == "node" {
			v.Sealed, _ = node(t, object{"do": "seal", "key": pemOf(t, private), "hash": v.Hash, "text": v.Text, "aad": v.AAD, "nonce": "000102030405060708090a0b"})
		} else {
			w := newWorld(t, Options{Agent: Socket(testkit.ServeAgent(t, testkit.Keyring(t, private)))})
			v.Sealed = reply[string](w, "Seal", object{"plaintext": v.Text, "aad": v.AAD})
		}
		vectors = append(vectors, v)
	}
	text, err := json.MarshalIndent(vectors, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
