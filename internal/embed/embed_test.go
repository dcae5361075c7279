package embed

import (
	"math"
	"testing"
)

func TestVectorsHaveUnitLength(t *testing.T) {
	m := English()
	texts := []string{"a failed Crypto.Seal", "connection_refused", "x", "", "  -- "}
	vectors, err := m.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		want := 1.0
		if i >= 3 {
			want = 0 // a text without words
		}
		if len(v) != m.Dimensions() || math.Abs(sum-want) > 1e-5 {
			t.Errorf("%q: %d dimensions, square length %v, want %v", texts[i], len(v), sum, want)
		}
	}
}
