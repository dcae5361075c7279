package client

import (
	"encoding/json"
	"slices"
	"strings"

	"kernos/internal/jsonvalue"
	"kernos/message"
)

// A Reference is a part of an answer that was too large for it, or isn't text: the answer has a
// pointer to it in its place.
type Reference struct {
	Name    string // of the member that the data would have; "" if it is all of the data
	Pointer message.BlobPointer
}

const (
	referenceSuffix = "Ref"
	wholeReference  = "dataRef"
)

// besideWhole are the members of data that is a reference as a whole.
var besideWhole = []string{wholeReference, "size", "mediaType"}

// References finds the references in the data of an answer: {"dataRef": …} in place of all of it, or
// members such as bodyRef in place of body. Beside dataRef there may be the size and the media type.
func References(data json.RawMessage) (found []Reference) {
	members := jsonvalue.Members(data)
	for _, m := range members {
		name, ok := strings.CutSuffix(m.Name, referenceSuffix)
		if !ok || name == "" || members.Has(name) {
			continue
		}
		p, err := message.ParseBlobPointer(m.Value)
		if err != nil {
			continue
		}
		if m.Name != wholeReference {
			found = append(found, Reference{Name: name, Pointer: p})
		} else if !slices.ContainsFunc(members, func(m jsonvalue.Member) bool { return !slices.Contains(besideWhole, m.Name) }) {
			return []Reference{{Pointer: p}}
		}
	}
	return found
}

// Replace returns the data of an answer with a value in place of the reference to it.
func (r Reference) Replace(data, value json.RawMessage) json.RawMessage {
	if r.Name == "" {
		return value
	}
	members := jsonvalue.Members(data)
	for i := range members {
		if members[i].Name == r.Name+referenceSuffix {
			members[i].Name, members[i].Value = r.Name, value
		}
	}
	return members.Text()
}
