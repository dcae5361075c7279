package door

import (
	"cmp"
	"slices"

	"kernos/message"
)

// failUnsafe answers the requests that can't be sent to another owner, and returns the others in their order.
func (v *visit) failUnsafe() (again []*outstanding) {
	return v.settle(func(o *outstanding) bool { return o.safe && o.line != nil }, Away(true))
}

// failAll answers all requests with an error.
func (v *visit) failAll(why *message.Error) {
	v.settle(func(*outstanding) bool { return false }, why)
}

// settle answers the requests that aren't to stay with an error, and returns those that stay, in their order.
func (v *visit) settle(stays func(*outstanding) bool, why *message.Error) (left []*outstanding) {
	v.mu.Lock()
	var failed []*outstanding
	for id, o := range v.waiting {
		if stays(o) {
			left = append(left, o)
			continue
		}
		failed = append(failed, o)
		v.kept -= len(o.line)
		delete(v.waiting, id)
	}
	v.mu.Unlock()
	inOrder := func(a, b *outstanding) int { return cmp.Compare(a.place, b.place) }
	slices.SortFunc(left, inOrder)
	slices.SortFunc(failed, inOrder)
	for _, o := range failed {
		v.sendBack(&o.request, o.request.Fail(why))
	}
	return left
}
