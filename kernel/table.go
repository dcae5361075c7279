package kernel

import (
	"hash/maphash"
	"maps"
)

// A table is a map by names of which changed copies are cheap: a copy shares the parts that it doesn't change.
// So one more syscall costs about the same whether a registry has a hundred or ten thousand. The zero value is an
// empty table.
type table[K ~string, V any] struct {
	parts [64]map[K]V
	own   [64]bool // the parts that no other table has
}

var tableSeed = maphash.MakeSeed()

func (t *table[K, V]) at(k K) uint64 {
	return maphash.String(tableSeed, string(k)) % uint64(len(t.parts))
}

func (t *table[K, V]) get(k K) (V, bool) {
	v, ok := t.parts[t.at(k)][k]
	return v, ok
}

// copy returns a table that may be changed until other goroutines read it.
func (t *table[K, V]) copy() *table[K, V] { return &table[K, V]{parts: t.parts} }

func (t *table[K, V]) set(k K, v V) { t.part(k)[k] = v }

func (t *table[K, V]) delete(k K) { delete(t.part(k), k) }

// part returns the part that has a name, for a change.
func (t *table[K, V]) part(k K) map[K]V {
	i := t.at(k)
	if !t.own[i] {
		t.own[i] = true
		if t.parts[i] = maps.Clone(t.parts[i]); t.parts[i] == nil {
			t.parts[i] = make(map[K]V)
		}
	}
	return t.parts[i]
}
