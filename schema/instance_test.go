package schema

import (
	"encoding/json"
	"math/big"
	"runtime"
	"strings"
	"testing"
)

// What the library computes with stays whole or not, keeps its sign, and stays on the
// same side of every bound that a person would set.
func TestTamedNumbersAreLikeTheOnesTheyStandFor(t *testing.T) {
	ones, zeros := strings.Repeat("1", 5000), strings.Repeat("0", 5000)
	for _, c := range []struct {
		number string
		whole  bool
		sign   int
		large  bool // beyond ±1e300
		small  bool // within ±1e-300
	}{
		{"12", true, 1, false, false},
		{"-1.5", false, -1, false, false},
		{"1e999999999", true, 1, true, false},
		{"-1e999999999", true, -1, true, false},
		{"1e-999999999", false, 1, false, true},
		{"1e99999999999999999999", true, 1, true, false},
		{"1e9223372036854775807", true, 1, true, false},
		{"1e-9223372036854775808", false, 1, false, true},
		{"-1e-99999999999999999999", false, -1, false, true},
		{ones, true, 1, true, false},
		{"-" + ones, true, -1, true, false},
		{"1." + ones, false, 1, false, false},
		{"1." + zeros, true, 1, false, false},
		{"1." + zeros + "1", false, 1, false, false},
		{"0." + zeros + "1", false, 1, false, true},
		{ones + ".5", false, 1, true, false},
		{"1" + zeros + "e-5000", true, 1, false, false},
		{"0." + ones + "e5000", true, 1, true, false},
		{"0e999999999", true, 0, false, false},
		{"0." + zeros, true, 0, false, false},
	} {
		tamed := tameNumber(json.Number(c.number))
		r, ok := new(big.Rat).SetString(string(tamed))
		name := c.number
		if len(name) > 40 {
			name = name[:20] + "…" + name[len(name)-15:]
		}
		if !ok || len(tamed) > 2*maxDigits {
			t.Errorf("%s became %.60s", name, tamed)
			continue
		}
		abs := new(big.Rat).Abs(r)
		limit, _ := new(big.Rat).SetString("1e300")
		large := abs.Cmp(limit) > 0
		small := r.Sign() != 0 && abs.Cmp(new(big.Rat).Inv(limit)) < 0
		if r.IsInt() != c.whole || r.Sign() != c.sign || large != c.large || small != c.small {
			t.Errorf("%s became %.60s: whole %v, sign %d, large %v, small %v", name, tamed, r.IsInt(), r.Sign(), large, small)
		}
	}
}

// allocated returns how many bytes a function allocates. Arithmetic with numbers of any length allocates
// as much as it works.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// A megabyte of digits must not keep the kernel busy for seconds.
func TestLongNumbersAreCheckedQuickly(t *testing.T) {
	s := Input[struct {
		N int `json:"n"`
	}]()
	for _, number := range []string{"1." + strings.Repeat("1", 1<<20), strings.Repeat("1", 1<<20), "1." + strings.Repeat("1", 1<<20) + "e100000"} {
		value := json.RawMessage(`{"n":` + number + `}`)
		var err error
		bytes := allocated(func() { err = s.Validate(value) })
		if err == nil {
			t.Errorf("%.20s… is accepted", number)
		}
		if most := 64 * len(value); bytes > most {
			t.Errorf("%.20s… took %d bytes of memory, and may take %d", number, bytes, most)
		}
	}
}
