package daemon

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"kernos/capability/lifecycle"
	"kernos/internal/embed"
	"kernos/message"
)

// A meant is a daemon whose messages are embedded.
type meant struct {
	*Daemon
	t *testing.T
}

func openMeant(t *testing.T, home, embeddings string) meant {
	t.Helper()
	d, err := Open(&Options{Home: home, Embeddings: embeddings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return meant{d, t}
}

func (d meant) call(kind message.Kind, what message.Type, data string) json.RawMessage {
	d.t.Helper()
	out, err := d.Call(d.t.Context(), message.Message{Kind: kind, Type: what, Data: json.RawMessage(data)}, nil)
	if err != nil || out.Kind != message.KindReply {
		d.t.Fatalf("%s: %s, %v", what, out.Data, err)
	}
	return out.Data
}

func (d meant) echo(text string) { d.call(message.KindCommand, "Echo", `{"message":"`+text+`"}`) }

func (d meant) status() lifecycle.Meaning {
	var s lifecycle.Status
	if err := json.Unmarshal(d.call(message.KindQuery, "Kernel.Status", `{}`), &s); err != nil {
		d.t.Fatal(err)
	}
	return s.Meaning
}

// until waits until what Kernel.Status reports is as wanted. It doesn't ask for it by a message, which would be embedded too.
func (d meant) until(wanted func(lifecycle.Meaning) bool) lifecycle.Meaning {
	d.t.Helper()
	for {
		m := d.meaningStats()
		if wanted(m) {
			return m
		}
		if err := d.Journal().Flush(); err != nil || d.t.Context().Err() != nil {
			d.t.Fatal(err, m)
		}
		runtime.Gosched()
	}
}

// embedded waits until the given number of texts is embedded.
func (d meant) embedded(entries int) lifecycle.Meaning {
	d.t.Helper()
	return d.until(func(m lifecycle.Meaning) bool { return m.Entries >= entries && m.Behind == 0 && m.Again == 0 })
}

// near returns the data of what a search by meaning finds.
func (d meant) near(query string) string {
	d.t.Helper()
	return string(d.call(message.KindQuery, "Message.Search", `{"query":"`+query+`","mode":"meaning"}`))
}

// A kernel that isn't asked by meaning holds no vectors in memory, however many it makes, and however many there are in its home.
func TestVectorsAreReadWhenTheyAreAskedFor(t *testing.T) {
	home := t.TempDir()
	d := openMeant(t, home, "")
	for i := range 700 { // with their replies, more than an index keeps outside of its blocks
		d.echo(fmt.Sprintf("the giraffe number %d eats leaves", i))
	}
	if m := d.embedded(1400); m.Bytes != 0 {
		t.Errorf("after recording: %+v", m)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openMeant(t, home, "")
	d.call(message.KindQuery, "Message.Search", `{"query":"giraffe","mode":"words"}`)
	if m := d.status(); m.Entries < 1400 || m.Bytes != 0 {
		t.Errorf("before a search by meaning: %+v", m)
	}
	d.near("tall animal")
	if m := d.status(); m.Bytes == 0 {
		t.Errorf("after a search by meaning: %+v", m)
	}
}

// A kernel that has nothing to embed and isn't asked by meaning doesn't load the table of words, and reads no vectors of its
// home. Whether the table was loaded is seen in a process of its own, by what the next text allocates.
func TestAnIdleKernelDoesNotLoadTheTable(t *testing.T) {
	const inChild = "KERNOS_TEST_IDLE_HOME"
	home := os.Getenv(inChild)
	if home == "" {
		d := openMeant(t, t.TempDir(), "")
		d.echo("a giraffe eats leaves")
		d.embedded(2)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), inChild+"="+d.Home().Dir)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	d := openMeant(t, home, "")
	m, err := d.Journal().Embedded()
	if err != nil || m.Entries < 2 || m.Behind > 0 || d.state.vectors.Bytes() > 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := d.Close(); err != nil { // nothing else allocates from here on
		t.Fatal(err)
	}
	allocates := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := embed.English().Embed(t.Context(), []string{"giraffe"}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if first, second := allocates(), allocates(); first < 512<<10 || second > 64<<10 {
		t.Errorf("the first text allocated %d bytes, the second %d: the table was loaded before", first, second)
	}
}

// An embeddings endpoint gives texts that share a word vectors that are near. It refuses the first requests.
type embeddingsEndpoint struct {
	*httptest.Server
	mu       sync.Mutex
	refusals []int
	keys     map[string]bool
	sent     map[string]int // how often each text came, after the name of its model
	batch    int            // the most texts that one request had
	held     chan struct{}  // requests wait until it is closed; nil means that they don't
}

func serveEndpoint(t *testing.T, refusals ...int) *embeddingsEndpoint {
	e := &embeddingsEndpoint{refusals: refusals, keys: make(map[string]bool), sent: make(map[string]int)}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *embeddingsEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model string
		Input []string
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	e.mu.Lock()
	e.keys[r.Header.Get("Authorization")] = true
	held, status := e.held, http.StatusOK
	if len(e.refusals) > 0 {
		status, e.refusals = e.refusals[0], e.refusals[1:]
	}
	e.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After-Ms", "1")
	if err != nil || r.URL.Path != "/v1/embeddings" {
		status = http.StatusBadRequest
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.batch = max(e.batch, len(body.Input))
	type datum struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	var out struct {
		Data []datum `json:"data"`
	}
	for i, text := range body.Input {
		e.sent[body.Model+": "+text]++
		v := make([]float32, 64)
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < 'a' || r > 'z' }) {
			h := fnv.New64a()
			_, _ = h.Write([]byte(word))
			v[h.Sum64()%64]++
		}
		out.Data = append(out.Data, datum{i, v})
	}
	_ = json.NewEncoder(w).Encode(out)
}

// hold makes requests wait until the function that it returns is called.
func (e *embeddingsEndpoint) hold() (release func()) {
	held := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = held
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.held = nil
		close(held)
	})
}

// A home changes from the table to an endpoint, and to another model of it. Searches go on all the time, the status has
// the progress, and no text is sent to a model twice.
func TestAnEndpointEmbedsMessages(t *testing.T) {
	e := serveEndpoint(t, 429, 500)
	home, host := t.TempDir(), strings.TrimPrefix(e.URL, "http://")
	d := openMeant(t, home, "")
	var key string
	if err := json.Unmarshal(d.call(message.KindCommand, "Crypto.Seal", `{"plaintext":"the-key","for":["`+host+`"]}`), &key); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		d.echo("giraffe eats leaves " + strings.Repeat("x", i+1))
	}
	d.echo("a zebra sleeps")
	entries := d.embedded(202).Entries
	finds := func(when string) {
		t.Helper()
		if got := d.near("zebra sleeps"); !strings.Contains(got, `"near"`) || !strings.Contains(got, "a zebra sleeps") {
			t.Errorf("%s: %s", when, got)
		}
	}
	finds("the table")
	for i, model := range []string{"small", "large"} {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		release := e.hold()
		defer release()
		d = openMeant(t, home, `{"baseUrl":"`+e.URL+`/v1","model":"`+model+`","key":"`+key+`"}`)
		d.echo("a giraffe yawns") // which wakes the embedder
		id := host + "/" + model
		if i == 0 {
			d.until(func(m lifecycle.Meaning) bool { return m.Again > 0 })
			if m := d.status(); m.Model != id || m.Done != 0 || m.Again < entries {
				t.Errorf("%s begins: %+v", model, m)
			}
			finds("the table, while " + model + " embeds")
		}
		release()
		if m := d.embedded(entries + 2); m.Model != id || m.Waiting != "" {
			t.Errorf("%s has embedded all: %+v", model, m)
		}
		finds(model)
		entries += 2
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.keys) != 1 || !e.keys["Bearer the-key"] || len(e.refusals) > 0 || e.batch < 50 {
		t.Errorf("keys %v, %v not sent, %d texts at most in a request", e.keys, e.refusals, e.batch)
	}
	for text, n := range e.sent {
		if n > 1 {
			t.Errorf("%q was sent %d times", text, n)
		}
	}
}

// What the journal redacts isn't embedded, so that neither an endpoint nor a vector has it, also if it is a plain word.
func TestSecretsAreNotEmbedded(t *testing.T) {
	e := serveEndpoint(t)
	d := openMeant(t, t.TempDir(), `{"baseUrl":"`+e.URL+`/v1","model":"small"}`)
	const secret, to = "periwinkle", `"url":"http://127.0.0.1:1/` // where no server answers
	requests := []struct{ what, data string }{
		{"Crypto.Seal", `{"plaintext":"` + secret + `"}`},
		{"Crypto.Seal", `{"plaintext":["` + secret + `"]}`},
		{"Crypto.Open", `{"ciphertext":"` + secret + `"}`},
		{"Memory.Set", `{"key":"vault/bank","value":"` + secret + `"}`},
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Vault-Token", "password", "client_secret", "refresh_token", "passphrase", "private_key", "session_id"} {
		for _, data := range []string{
			`{` + to + `","headers":{"` + name + `":"` + secret + `"}}`,
			`{` + to + `?q=1&` + name + `=` + secret + `"}`,
			`{` + to + `","method":"POST","body":"q=1&` + name + `=` + secret + `"}`,
			`{` + to + `","method":"POST","body":"{\"` + name + `\":\"` + secret + `\"}"}`,
		} {
			requests = append(requests, struct{ what, data string }{"Http.Fetch", data})
		}
	}
	for _, r := range requests {
		_, _ = d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: message.Type(r.what), Data: json.RawMessage(r.data)}, nil)
	}
	d.echo("a harmless giraffe")
	d.embedded(len(requests))
	e.mu.Lock()
	defer e.mu.Unlock()
	harmless := false
	for text := range e.sent {
		harmless = harmless || strings.Contains(text, "harmless giraffe")
		if strings.Contains(text, secret) {
			t.Errorf("%q was embedded", text)
		}
	}
	if !harmless {
		t.Errorf("a harmless text wasn't embedded: %v", e.sent)
	}
}
