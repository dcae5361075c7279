package schema

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// parseInstance reads a value or a schema for the library, which computes with exact fractions:
// it gives up on numbers such as 1e999999999. They are replaced by numbers that are
// still out of every bound, and still whole or not.
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
		mantissa, exponent, ok := strings.Cut(strings.ToLower(string(v)), "e")
		if !ok {
			return v
		}
		most := len(mantissa) + 1000
		n, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
		switch negative := strings.HasPrefix(exponent, "-"); {
		case negative && (err != nil || n < -most):
			return json.Number(mantissa + "e-" + strconv.Itoa(most))
		case !negative && (err != nil || n > most):
			return json.Number(mantissa + "e" + strconv.Itoa(most))
		}
	}
	return v
}
