package store

import (
	"bytes"
	"errors"
	"testing"
)

func TestAfter(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"a", "b"},
		{"ab", "ac"},
		{"a\xff", "b"},
		{"a\xff\xff", "b"},
		{"a\xfe\xff", "a\xff"},
		{"\x00", "\x01"},
		{"a\x00", "a\x01"},
	} {
		prefix := []byte(c.prefix)
		if got := After(prefix); string(got) != c.want {
			t.Errorf("After(%q) = %q, want %q", c.prefix, got, c.want)
		}
		if string(prefix) != c.prefix {
			t.Errorf("After changed its argument: %q", prefix)
		}
	}
	for _, last := range []string{"", "\xff", "\xff\xff"} {
		if got := After([]byte(last)); got != nil {
			t.Errorf("After(%q) = %q, want nil: nothing comes behind", last, got)
		}
	}
	if r := Prefix(nil); len(r.From) != 0 || r.To != nil || r.Reverse {
		t.Errorf("Prefix(nil) = %v, want everything", r)
	}
}

func FuzzAfter(f *testing.F) {
	f.Add([]byte("a"), []byte("ab"))
	f.Add([]byte("a\xff"), []byte("b"))
	f.Add([]byte("\xff\xff"), []byte("\xff\xff\x00"))
	f.Add([]byte(""), []byte(""))
	f.Fuzz(func(t *testing.T, prefix, key []byte) {
		r := Prefix(prefix)
		within := bytes.Compare(key, r.From) >= 0 && (r.To == nil || bytes.Compare(key, r.To) < 0)
		if within != bytes.HasPrefix(key, prefix) {
			t.Errorf("%q is in the range of %q: %t", key, prefix, within)
		}
	})
}

func TestBatchCheck(t *testing.T) {
	key := []byte("m/1")
	for name, c := range map[string]struct {
		op   Op
		fine bool
	}{
		"set":                  {Op{OpSet, key, []byte("v")}, true},
		"set to nothing":       {Op{OpSet, key, nil}, true},
		"delete":               {Op{OpDelete, key, nil}, true},
		"delete a range":       {Op{OpDeleteRange, key, []byte("m/2")}, true},
		"delete an empty one":  {Op{OpDeleteRange, key, key}, true},
		"no key":               {Op{OpSet, nil, nil}, false},
		"a key of the engine":  {Op{OpDelete, []byte("\x00x"), nil}, false},
		"a range without end":  {Op{OpDeleteRange, key, nil}, false},
		"a range from nowhere": {Op{OpDeleteRange, nil, key}, false},
		"a range turned round": {Op{OpDeleteRange, []byte("m/2"), key}, false},
		"no kind":              {Op{0, key, nil}, false},
		"an unknown kind":      {Op{OpDeleteRange + 1, key, nil}, false},
	} {
		b := Batch{Ops: []Op{{OpSet, key, nil}, c.op}}
		err := b.Check()
		if (err == nil) != c.fine {
			t.Errorf("%s: %v", name, err)
		}
		if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Code != 500) {
			t.Errorf("%s: %v has no code", name, err)
		}
	}
}

func TestBatchTouches(t *testing.T) {
	set := func(key string) Op { return Op{OpSet, []byte(key), nil} }
	remove := func(from, to string) Op { return Op{OpDeleteRange, []byte(from), []byte(to)} }
	for _, c := range []struct {
		op     Op
		prefix string
		want   bool
	}{
		{set("m/1"), "m/", true},
		{set("m/1"), "m/1", true},
		{set("m/1"), "m/11", false},
		{set("m/1"), "", true},
		{set("j/1"), "m/", false},
		{Op{OpDelete, []byte("m/1"), nil}, "m/", true},
		{remove("m/1", "m/2"), "m/", true},
		{remove("m/1", "m/2"), "m/15", true},
		{remove("a", "z"), "m/", true},
		{remove("a", "m/"), "m/", false}, // it ends before
		{remove("a", "m/\x00"), "m/", true},
		{remove("m0", "z"), "m/", false}, // it begins behind
		{remove("a", "b"), "m/", false},
		{remove("n", "z"), "m/", false},
		{remove("a", "\xff\xff\x01"), "\xff\xff", true},
		{remove("a", "\xff\xff"), "\xff\xff", false},
		{remove("a", "b"), "", true},
	} {
		b := Batch{Ops: []Op{set("x"), c.op}[1:]}
		if got := b.touches([]byte(c.prefix)); got != c.want {
			t.Errorf("%q…%q touches %q: %t", c.op.Key, c.op.Value, c.prefix, got)
		}
	}
	if new(Batch).touches(nil) {
		t.Error("an empty batch touches something")
	}
}

func TestBatchBuilds(t *testing.T) {
	var a, b Batch
	if !a.Empty() {
		t.Error("the zero value is not empty")
	}
	a.IfAbsent([]byte("k"))
	if !a.Empty() {
		t.Error("a condition changes something")
	}
	a.Set([]byte("k"), []byte("v"))
	b.IfRevision([]byte("x"), 7)
	b.Delete([]byte("x"))
	b.DeleteRange([]byte("y"), []byte("z"))
	a.Append(&b)
	if len(a.Ops) != 3 || len(a.Conditions) != 2 || a.Ops[1].Kind != OpDelete || a.Ops[2].Kind != OpDeleteRange ||
		a.Conditions[0].Revision != 0 || a.Conditions[1].Revision != 7 {
		t.Errorf("appended: %v", a)
	}
	ops := a.Ops
	a.Reset()
	if !a.Empty() || len(a.Conditions) != 0 || cap(a.Ops) < 3 {
		t.Errorf("after Reset: %v", a)
	}
	for _, op := range ops {
		if op.Key != nil || op.Value != nil {
			t.Error("Reset holds on to keys and values")
		}
	}
}
