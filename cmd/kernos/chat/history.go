package chat

import (
	"encoding/json"
	"os"
	"strings"

	"kernos/internal/durable"
	"kernos/internal/secret"
)

// A history has the inputs of earlier conversations, and keeps new ones, each as a JSON string on a
// line of a file. If the file can't be read or written, the history is that of this conversation. An input that
// may have a credential in it is not kept in the file.
type history struct {
	file  string
	all   []string
	at    int    // the one that is shown; len(all) means the one that is being written
	draft string // the text that was being written
}

// maxHistory is how many inputs are kept.
const maxHistory = 1000

func openHistory(file string) *history {
	h := &history{file: file}
	if text, err := os.ReadFile(file); err == nil {
		for line := range strings.Lines(string(text)) {
			var input string
			if json.Unmarshal([]byte(line), &input) == nil {
				h.all = append(h.all, input)
			}
		}
	}
	h.at = len(h.all)
	return h
}

func (h *history) add(input string) {
	if n := len(h.all); n == 0 || h.all[n-1] != input {
		h.all = append(h.all, input)
		h.all = h.all[max(0, len(h.all)-maxHistory):]
		var b strings.Builder
		for _, input := range h.all {
			if !secret.Mentioned(input) {
				line, _ := json.Marshal(input) // never fails
				b.Write(append(line, '\n'))
			}
		}
		if h.file != "" {
			_ = durable.WriteFile(h.file, []byte(b.String()))
		}
	}
	h.at = len(h.all)
}

// move returns the input before or after the one that is shown, or false if there is none.
func (h *history) move(earlier bool, shown string) (string, bool) {
	if h.at == len(h.all) {
		h.draft = shown
	}
	to := h.at + 1
	if earlier {
		to = h.at - 1
	}
	if to < 0 || to > len(h.all) {
		return "", false
	}
	if h.at = to; to == len(h.all) {
		return h.draft, true
	}
	return h.all[to], true
}
