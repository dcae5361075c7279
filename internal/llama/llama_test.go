package llama

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"kernos/internal/llama/kernosdemo"
)

var long = flag.Bool("long", false, "compare all answers, not one in 32")

func open(t testing.TB) *Model {
	m, err := Open(kernosdemo.File())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// answer is what llama.cpp made of a prompt: its tokens, the tokens that it answered, and how
// far each was ahead of the second best.
type answer struct {
	Prompt string    `json:"prompt"`
	Tokens []Token   `json:"tokens"`
	Answer []Token   `json:"answer"`
	Gaps   []float64 `json:"gaps"`
}

func answers(t testing.TB) []answer {
	f, err := os.Open("testdata/llamacpp.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []answer
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// parseText returns the tokens of a text in which control tokens are written out.
func parseText(m *Model, text string) []Token {
	var all []Token
	for text != "" {
		at, name := len(text), ""
		for control := range m.tokens.control {
			if i := strings.Index(text, control); i >= 0 && i < at {
				at, name = i, control
			}
		}
		all = append(all, m.Tokens(text[:at])...)
		if text = text[at+len(name):]; name != "" {
			all = append(all, m.tokens.control[name])
		}
	}
	return all
}

// TestAnswersAreThoseOfLlamaCpp compares every token of more than 300 answers. Where the two best
// tokens are closer than 0.05, either may win, and the comparison of that answer ends there.
func TestAnswersAreThoseOfLlamaCpp(t *testing.T) {
	m := open(t)
	s := m.NewState()
	all := answers(t)
	if len(all) < 300 {
		t.Fatalf("%d answers; at least 300 are compared", len(all))
	}
	step := 32
	if *long {
		step = 1
	}
	compared, close := 0, 0
	for i := 0; i < len(all); i += step {
		a := all[i]
		prompt := parseText(m, a.Prompt)
		if !slices.Equal(prompt, a.Tokens) {
			t.Fatalf("the tokens of %q are %v; llama.cpp has %v", a.Prompt, prompt, a.Tokens)
		}
		for i, want := range a.Answer {
			logits, err := s.Logits(t.Context(), prompt)
			if err != nil {
				t.Fatal(err)
			}
			if got := best(logits); got != want {
				if a.Gaps[i] >= 0.05 {
					t.Errorf("%q: token %d is %q; llama.cpp has %q, ahead by %v", a.Prompt, i, m.Text(got), m.Text(want), a.Gaps[i])
				}
				close++
				break
			}
			prompt = append(prompt, want)
			compared++
		}
	}
	t.Logf("%d tokens are equal; %d answers ended where two tokens are within 0.05", compared, close)
}

func best(logits []float32) Token {
	at := 0
	for i, v := range logits {
		if v > logits[at] {
			at = i
		}
	}
	return Token(at)
}

// TestWhatWasReadIsKept goes back and forth in a context: the logits are those of a fresh one.
func TestWhatWasReadIsKept(t *testing.T) {
	m := open(t)
	used := m.NewState()
	text := m.Tokens("remember that the door code is 4711, and that the bell is broken")
	for _, n := range []int{3, 9, 9, 4, 14, 1, 12} {
		got, err := used.Logits(t.Context(), text[:n])
		if err != nil {
			t.Fatal(err)
		}
		want, err := m.NewState().Logits(t.Context(), text[:n])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %d tokens, a used context differs from a fresh one", n)
		}
	}
}

func TestBoundsOfAContext(t *testing.T) {
	m := open(t)
	s := m.NewState()
	if _, err := s.Logits(t.Context(), nil); err == nil {
		t.Error("no tokens are accepted")
	}
	if _, err := s.Logits(t.Context(), make([]Token, m.Length()+1)); err != errTooLong {
		t.Errorf("a long text gives %v", err)
	}
}

// TestProductsSideBySideAreExact compares the three sums of one multiplication with plain ones, at the bounds.
func TestProductsSideBySideAreExact(t *testing.T) {
	for _, weights := range [][lanes]int8{{-128, -128, -128}, {127, 127, 127}, {-128, 127, -128}, {127, -128, 127}, {0, -1, 1}} {
		file := tensor{columns: blockSize, rows: lanes}
		for _, w := range weights {
			file.data = append(file.data, 0, 0x3c) // the scale is 1
			file.data = append(file.data, slices.Repeat([]byte{byte(w)}, blockSize)...)
		}
		m := newMatrix(file)
		for _, x := range []int64{-127, -1, 0, 1, 127} {
			q := quantized{slices.Repeat([]int64{x}, blockSize), []float32{1}}
			out := make([]float32, lanes)
			m.times([]quantized{q}, [][]float32{out})
			for l, w := range weights {
				if want := float32(int64(w) * x * blockSize); out[l] != want {
					t.Errorf("weights %v, values %d, lane %d: %v; want %v", weights, x, l, out[l], want)
				}
				row := make([]float32, blockSize)
				if m.row(l, row); row[0] != float32(w) || row[blockSize-1] != float32(w) {
					t.Errorf("weights %v: row %d is %v", weights, l, row)
				}
			}
		}
	}
}

func TestHalves(t *testing.T) {
	for bits := range uint16(31 << 10) {
		if got := toFloat16(float16(bits)); got != bits {
			t.Fatalf("%#x becomes %v becomes %#x", bits, float16(bits), got)
		}
	}
	if !math.IsInf(float64(float16(toFloat16(70000))), 1) {
		t.Error("a number beyond the largest half isn't infinite")
	}
}

// FuzzOpen reads damaged files: an error or a model, never a panic.
func FuzzOpen(f *testing.F) {
	whole := kernosdemo.File()
	f.Add(whole[:64])
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	head := slices.Clone(whole[:4096])
	f.Add(head)
	f.Fuzz(func(t *testing.T, data []byte) { Open(data) })
}

func BenchmarkPrompt(b *testing.B) {
	m := open(b)
	tokens := answers(b)[0].Tokens
	for b.Loop() {
		if _, err := m.NewState().Logits(b.Context(), tokens); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(tokens)), "tokens")
}

func BenchmarkToken(b *testing.B) {
	m := open(b)
	s, tokens := m.NewState(), answers(b)[0].Tokens
	for b.Loop() { // the last token is read again each time
		if _, err := s.Logits(b.Context(), tokens); err != nil {
			b.Fatal(err)
		}
	}
}
