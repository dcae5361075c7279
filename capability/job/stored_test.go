package job

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What is stored of a job has every field of it.
func TestNothingOfAJobIsForgotten(t *testing.T) {
	var s, s2 spec
	var o, o2 state
	fill(reflect.ValueOf(&s).Elem(), 1)
	fill(reflect.ValueOf(&o).Elem(), 1)
	for _, c := range []struct {
		text      []byte
		got, want any
	}{
		{s.encode(), &s2, &s}, {o.encode(), &o2, &o},
		{new(spec).encode(), new(spec), new(spec)}, {new(state).encode(), new(state), new(state)},
	} {
		if err := json.Unmarshal(c.text, c.got); err != nil || !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%v: %s\n got %+v\nwant %+v", err, c.text, c.got, c.want)
		}
	}
}

// fill gives every field a value that isn't its zero value, and that no other field has.
func fill(v reflect.Value, n int) int {
	n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n = fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		n = fill(v.Elem(), n)
	case reflect.String:
		v.SetString(fmt.Sprintf("a \"text\" %d", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[jsontext.Value]() {
			v.SetBytes(fmt.Appendf(nil, `{"value":%d}`, n))
			break
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		n = fill(v.Index(0), n)
	default:
		panic(v.Type())
	}
	return n
}
