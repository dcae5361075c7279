package schema

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// parseInstance reads a value or a schema for the library, which computes with exact fractions:
// it gives up on numbers such as 1e999999999, and takes seconds for one of a million
// digits. They are replaced by numbers of about the same size, still whole or not.
func parseInstance(value json.RawMessage) (any, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return nil, err
	}
	return tame(v), nil
}

func tame(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = tame(value)
		}
	case []any:
		for i, value := range v {
			v[i] = tame(value)
		}
	case json.Number:
		return tameNumber(v)
	}
	return v
}

const (
	maxDigits   = 1000
	maxExponent = 2000
)

// tameNumber shortens a number that is absurdly long or large. It stays whole or not,
// and stays about as large.
func tameNumber(v json.Number) json.Number {
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(string(v)), "e")
	n, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	n = max(-1<<31, min(n, 1<<31)) // room to compute with
	if len(v) < maxDigits && (!scaled || err == nil && max(n, -n) < maxDigits) {
		return v
	}
	if err != nil { // more than an int can hold
		n = maxExponent
		if strings.HasPrefix(exponent, "-") {
			n = -maxExponent
		}
	}
	if !scaled {
		n = 0
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	// The number is 0.digits times ten to the point.
	digits := strings.TrimLeft(whole+fraction, "0")
	point := len(digits) - len(fraction) + n
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return "0"
	}
	isWhole := point >= len(digits)
	if len(digits) > maxDigits {
		digits = digits[:maxDigits-1] + "1"
	}
	point = max(-maxExponent, min(point, maxExponent))
	if !isWhole {
		point = min(point, len(digits)-1)
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return json.Number(sign + "0." + digits + "e" + strconv.Itoa(point))
}
