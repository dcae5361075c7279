package encoder

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"flag"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"kernos/internal/testkit/tool"
)

var long = flag.Bool("long", false, "compare all texts, not only every tenth")

// weights reads the encoder from where npm has installed it.
func weights(t testing.TB) *Encoder {
	folder := os.DirFS(filepath.Join(tool.Modules(t), "@energetic-ai", "model-embeddings-en", "dist"))
	names, err := fs.ReadDir(folder, ".")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, f := range names {
		if found[f.Name()], err = fs.ReadFile(folder, f.Name()); err != nil {
			t.Fatal(err)
		}
	}
	e, err := read(found)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestAgreesWithItsReference compares the encoder with what tools/embeddings/reference.mjs wrote.
func TestAgreesWithItsReference(t *testing.T) {
	e := weights(t)
	f, err := os.Open("testdata/vectors.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("testdata/texts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	worst, texts := 0.0, 0
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); texts++ {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			t.Fatal(err)
		}
		expected := make([]float32, 64)
		if err := binary.Read(want, binary.LittleEndian, expected); err != nil {
			t.Fatal(err)
		}
		if texts%10 != 0 && !*long {
			continue
		}
		vectors, err := e.Embed(t.Context(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range expected {
			if d := math.Abs(float64(vectors[0][i] - x)); d > 2e-6 {
				t.Errorf("%q: number %d is %v, not %v", text, i, vectors[0][i], x)
				break
			} else {
				worst = max(worst, d)
			}
		}
	}
	if texts != 200 {
		t.Errorf("%d texts were there", texts)
	}
	t.Logf("the largest difference is %.1e", worst)
}

func TestAFileThatIsNotTheEncoderIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "encoder.tgz")
	var empty bytes.Buffer
	if err := gzip.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{nil, []byte("GGUF"), empty.Bytes()} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(name); err == nil {
			t.Errorf("%q is taken for an encoder", data)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	e := weights(b)
	texts := []string{"Show me all errors related to sealing encrypted data"}
	for b.Loop() {
		if _, err := e.Embed(b.Context(), texts); err != nil {
			b.Fatal(err)
		}
	}
}
