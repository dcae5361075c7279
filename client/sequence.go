package client

import "fmt"

// CheckSequence reports which rule of the protocol the items of a whole stream break, or
// returns nil: progress and data come before done; an error may end them, and guidance
// stands right before its error; done comes once, at the end, after an error too. Items
// that are numbered are numbered from one on without a gap.
func CheckSequence(items []Item) error {
	if len(items) == 0 {
		return &Broken{"a stream without items has not ended"}
	}
	numbers := items[0].Seq > 0
	for i, item := range items {
		switch {
		case numbers && item.Seq != uint64(i+1):
			return &Broken{fmt.Sprintf("item %d has the number %d", i+1, item.Seq)}
		case item.ServiceHash == "":
			return &Broken{fmt.Sprintf("item %d, %s, has no service_hash", i+1, item.Type)}
		case item.Provenance == nil:
			return &Broken{fmt.Sprintf("item %d, %s, has no provenance", i+1, item.Type)}
		case item.Type == Data && item.ContentType == "":
			return &Broken{fmt.Sprintf("item %d, data, has no content_type", i+1)}
		}
		if i == 0 {
			continue
		}
		switch before := items[i-1].Type; {
		case before == Done:
			return &Broken{fmt.Sprintf("%s comes after done", item.Type)}
		case before == Guide && item.Type != Error:
			return &Broken{fmt.Sprintf("guidance is followed by %s, and not by its error", item.Type)}
		case before == Error && !items[i-1].Recoverable && item.Type != Done:
			return &Broken{fmt.Sprintf("an error that can't be recovered from is followed by %s, and not by done", item.Type)}
		}
	}
	if last := items[len(items)-1].Type; last != Done {
		return &Broken{fmt.Sprintf("the last item is %s, and not done", last)}
	}
	return nil
}
