package client

import (
	"encoding/json"
	"fmt"
)

// An ItemType describes what an item of a stream is.
type ItemType string

// The types of items.
const (
	Progress ItemType = "progress"
	Data     ItemType = "data"
	Error    ItemType = "error"
	Done     ItemType = "done"
	Guide    ItemType = "guidance"
)

// An Item is an item of a stream.
type Item struct {
	Seq         uint64   `json:"seq"` // number in the stream, from 1; 0 if the server does not number
	ServiceHash string   `json:"service_hash"`
	Type        ItemType `json:"type"`
	Provenance  []string `json:"provenance"`

	Message    string   `json:"message"`    // of progress
	Percentage *float64 `json:"percentage"` // of progress, from 0 to 1; may be nil

	ContentType string          `json:"content_type"` // of data
	Data        json.RawMessage `json:"data"`

	Error       string `json:"error"` // of an error
	Code        int    `json:"code"`  // 0 if the server gives none
	Recoverable bool   `json:"recoverable"`

	Guidance *Guidance `json:"-"`
}

// readItem reads an item. Types that it does not know are not its business.
func readItem(text json.RawMessage) (Item, error) {
	var i Item
	if err := json.Unmarshal(text, &i); err != nil {
		return Item{}, &Broken{"an item can't be read: " + err.Error()}
	}
	if i.Type == "" {
		return Item{}, &Broken{fmt.Sprintf("an item has no type: %.200s", text)}
	}
	if i.Type == Data && i.Data == nil {
		i.Data = json.RawMessage("null") // encoding/json makes nothing of null
	}
	if i.Type == Guide {
		i.Guidance = new(Guidance)
		if err := json.Unmarshal(text, i.Guidance); err != nil {
			return Item{}, &Broken{"guidance can't be read: " + err.Error()}
		}
	}
	return i, nil
}
