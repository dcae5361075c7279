package journal

import (
	"bytes"
	"encoding/json"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// An Entry is a message as it was recorded.
type Entry struct {
	Seq      uint64     // number of the record: the first is 1, and none is left out
	At       int64      // time of the record, in milliseconds since 1970; never goes back
	Way      kernel.Way // where the message came from and went to
	Redacted bool       // the data were changed before they were recorded
	Claim    bool       // a reply or an error that a program sent without being asked: it answers nothing

	Principal principal.ID // the principal that sent it or, if it is an answer, that gets it
	Name      string       // the principal's name at that time
	Wire      string       // the wire that the message or its request came over; "" within the process

	Message message.Message
}

// entry returns the record for a reader, which may keep it. Data that isn't JSON becomes a
// string.
func (r *record) entry(scan *jsonscan.Scanner) Entry {
	e := Entry{Seq: r.seq, At: r.at, Way: r.way(), Redacted: r.redacted(), Message: r.message(),
		Principal: r.principalID(), Name: string(principal.OwnerID), Wire: string(r.wire), Claim: r.claim}
	e.Message.Metadata.Migrate()
	if len(r.name) > 0 {
		e.Name = string(r.name)
	}
	if r.data != nil {
		e.Message.Data = bytes.Clone(r.data)
		if scan.Text(r.data) != nil {
			e.Message.Data = jsonscan.AppendQuoted(nil, string(r.data))
		}
	}
	return e
}

// errorCode returns the code in the data of an error, or 0.
func errorCode(data []byte) int {
	// As Error.Append writes it; otherwise as any program may.
	if digits, ok := bytes.CutPrefix(data, []byte(`{"code":`)); ok {
		n := 0
		for n < len(digits) && (digits[n] == '-' || '0' <= digits[n] && digits[n] <= '9') {
			n++
		}
		if code, err := strconv.Atoi(string(digits[:n])); err == nil {
			return code
		}
	}
	var e struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(data, &e) // data of another form have no code
	return e.Code
}
