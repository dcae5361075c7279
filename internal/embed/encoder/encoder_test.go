package encoder

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// weights opens the encoder, which isn't in the repository: `make embeddings` fetches it.
func weights(t testing.TB) *Encoder {
	found, _ := filepath.Glob("../../../bin/embeddings/*.tgz")
	if len(found) == 0 {
		t.Skip("bin/embeddings has no sentence encoder; make embeddings fetches it")
	}
	e, err := Open(found[0])
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
	t.Logf("%d texts; the largest difference is %.1e", texts, worst)
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
