package demo

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/message"
)

// The model inside makes the key of a fact out of a question, and the fact may have another key: "my cat is called
// Miso" is stored as /cat, and "what is the name of my cat?" asks for /cat-name. What a key doesn't find is searched
// for, without asking the model, and the model is shown the search in place of the keys.

const (
	memoryGet    message.Type = "Memory.Get"
	memorySearch message.Type = "Memory.Search"
)

// missedKeys returns the keys of a turn that only asks the memory for keys, if by the results in the turn that follows
// none of them exists.
func missedKeys(asks, results conversation.Turn) (keys []string) {
	for _, b := range results.Blocks {
		if b.Result == nil || !b.Result.IsError || string(jsonscan.Member([]byte(b.Result.Text), "code")) != "404" {
			return nil
		}
	}
	for _, b := range asks.Blocks {
		if b.Call == nil {
			continue
		}
		if b.Call.Name != memoryGet {
			return nil
		}
		keys = append(keys, jsonscan.Unquote(jsonscan.Member(b.Call.Args, "key")))
	}
	return keys
}

// searchMissed calls for a search if the results in the last turn are that keys don't exist, and reports whether it did.
func searchMissed(c *conversation.Conversation, a *conversation.Answer) (bool, error) {
	turns := c.Turns
	n := len(turns)
	if n < 2 || a.Tools[conversation.ToolName(memorySearch)] == "" {
		return false, nil
	}
	keys := missedKeys(turns[n-2], turns[n-1])
	for i, key := range keys {
		words := strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune("/-_ ", r) })
		args, err := json.Marshal(map[string]string{"query": strings.Join(words, " ")})
		if err != nil {
			return false, err
		}
		if err := a.Grow(a.Want(i, "", conversation.ToolName(memorySearch)), jsonscan.AppendQuoted(nil, string(args))); err != nil {
			return false, err
		}
	}
	a.Finish = conversation.FinishStop
	return len(keys) > 0, nil
}

// withoutMissed leaves out the turns that searches have followed.
func withoutMissed(turns []conversation.Turn) (kept []conversation.Turn) {
	for _, t := range turns {
		if n := len(kept); n > 2 && len(t.Blocks) > 0 && t.Blocks[0].Call != nil && t.Blocks[0].Call.Name == memorySearch && len(missedKeys(kept[n-2], kept[n-1])) > 0 {
			kept = kept[:n-2]
		}
		kept = append(kept, t)
	}
	return kept
}

// What the model is shown of a search: it was trained with three facts at most. One without a word of the query has to
// be nearer than texts are by chance.
const (
	maxFacts = 3
	minNear  = .45
)

// facts returns the result of a search of the memory in the form that the model was trained with.
func facts(found jsontext.Value) jsontext.Value {
	var out struct {
		Hits []struct {
			Key   string         `json:"key"`
			Value jsontext.Value `json:"value"`
			Why   struct {
				Words []string `json:"words"`
				Near  float64  `json:"near"`
			} `json:"why"`
		} `json:"hits"`
	}
	_ = json.Unmarshal(found, &out) // another kind of result has no facts
	type fact struct {
		Key   string         `json:"key"`
		Value jsontext.Value `json:"value"`
	}
	var shown []fact
	for _, h := range out.Hits {
		if len(shown) < maxFacts && len(h.Value) > 0 && (len(h.Why.Words) > 0 || h.Why.Near >= minNear) {
			shown = append(shown, fact{"/" + strings.TrimPrefix(h.Key, "/"), h.Value})
		}
	}
	return jsonvalue.Marshal(map[string][]fact{"found": shown})
}
