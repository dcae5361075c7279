package vectors_test

import (
	"fmt"
	"testing"

	"kernos/store"
	"kernos/store/storetest"
	"kernos/store/vectors"
)

func TestVectorsThatAreRemembered(t *testing.T) {
	s := storetest.NewMemory()
	model := small()
	m := vectors.Remember(model, s, []byte("ve"), 100)
	kept := func() (n int) {
		for _, err := range s.Scan(store.Prefix([]byte("ve"))) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	for i := range 1000 {
		texts := []string{"the same", fmt.Sprint("text ", i), fmt.Sprint("text ", i)}
		got, err := m.Embed(t.Context(), texts)
		if err != nil || len(got) != 3 {
			t.Fatal(len(got), err)
		}
		want, _ := model.Embed(t.Context(), texts)
		for j := range got {
			if c := cosine(got[j], want[j]); c < 0.999 {
				t.Fatalf("%q: the cosine is %v", texts[j], c)
			}
		}
		if n := kept(); n > 2*100+4 {
			t.Fatalf("%d are kept", n)
		}
	}
	n := model.embedded.Load()
	for i := 990; i < 1000; i++ { // also after a restart
		if _, err := vectors.Remember(model, s, []byte("ve"), 100).Embed(t.Context(), []string{fmt.Sprint("text ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if again := model.embedded.Load(); again != n {
		t.Errorf("%d texts were embedded again", again-n)
	}
	if _, err := vectors.Remember(large(), s, []byte("ve"), 100).Embed(t.Context(), []string{"text 999"}); err != nil {
		t.Fatal(err)
	}
	if v, err := vectors.Remember(large(), s, []byte("ve"), 100).Embed(t.Context(), []string{"text 999"}); err != nil || len(v[0]) != 100 {
		t.Errorf("another model has a vector of %d numbers, %v", len(v[0]), err)
	}
}
