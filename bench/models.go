package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"kernos/capability/model"
	"kernos/kernel"
	"kernos/transport/stdio"
)

const (
	modelDeltas = 2000 // of one answer
	modelRounds = 20
)

// models measures what a piece of a model's answer costs, from the bytes of the provider to a line
// for the client, beside the bare loops of the official libraries, which only read it.
func models(out io.Writer) error {
	fmt.Fprintf(out, "\nA delta of a model's answer (%d answers of %d deltas; the answer comes from memory, one event per read)\n", modelRounds, modelDeltas)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "reader\tµs/delta\tallocs/delta\tfirst delta\t")
	for _, r := range []struct {
		name string
		read func(*canned) (int, error)
		text string
	}{
		{"openai-go, reading", readOpenAI, openAIStream(modelDeltas)},
		{"kernos, openai-chat to a pipe", readKernos("openai-chat"), openAIStream(modelDeltas)},
		{"anthropic-sdk-go, reading", readAnthropic, anthropicStream(modelDeltas)},
		{"kernos, anthropic-messages to a pipe", readKernos("anthropic-messages"), anthropicStream(modelDeltas)},
	} {
		c := newCanned(r.text)
		if n, err := r.read(c); err != nil || n != modelDeltas { // also warms it up
			return fmt.Errorf("%s: %d deltas came, %w", r.name, n, err)
		}
		var first time.Duration
		allocs, cpu := mallocs(), cpuTime()
		for range modelRounds {
			if _, err := r.read(c); err != nil {
				return err
			}
			first += c.first()
		}
		each := float64(modelRounds * modelDeltas)
		used, made := cpuTime()-cpu, mallocs()-allocs
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%v\t\n", r.name, float64(used.Microseconds())/each, float64(made)/each, (first / modelRounds).Round(time.Microsecond))
	}
	return w.Flush()
}

// canned is a provider that always gives the same answer.
type canned struct {
	events  [][]byte
	sent    time.Time     // when the first delta was read from it
	arrived time.Time     // when the first delta came to the client
	there   chan struct{} // closed then; the second delta waits for it
}

func newCanned(text string) *canned {
	c := &canned{}
	for _, e := range strings.SplitAfter(text, "\n\n") {
		c.events = append(c.events, []byte(e))
	}
	return c
}

func (c *canned) first() time.Duration { return c.arrived.Sub(c.sent) }

// came notes that the first delta has come to the client.
func (c *canned) came() {
	c.arrived = time.Now()
	close(c.there)
}

// RoundTrip implements http.RoundTripper.
func (c *canned) RoundTrip(q *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, q.Body)
	c.sent, c.there = time.Time{}, make(chan struct{})
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: q,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: &cannedBody{canned: c, rest: c.events},
	}, nil
}

type cannedBody struct {
	*canned
	rest   [][]byte
	part   []byte
	waited bool
}

func (b *cannedBody) Read(into []byte) (int, error) {
	if len(b.part) == 0 {
		if len(b.rest) == 0 {
			return 0, io.EOF
		}
		if !b.sent.IsZero() && !b.waited {
			<-b.there
			b.waited = true
		}
		b.part, b.rest = b.rest[0], b.rest[1:]
		if b.sent.IsZero() && bytes.Contains(b.part, []byte("word")) {
			b.sent = time.Now()
		}
	}
	n := copy(into, b.part)
	b.part = b.part[n:]
	return n, nil
}

func (b *cannedBody) Close() error { return nil }

func openAIStream(deltas int) string {
	var b strings.Builder
	for range deltas {
		b.WriteString(`data: {"id":"chatcmpl-9lMgfRSWPHcw51s6wxKT1YEO2CKpd","object":"chat.completion.chunk","created":1721075653,"model":"gpt-4o","system_fingerprint":"fp_d576307f90","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	}
	b.WriteString(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

func anthropicStream(deltas int) string {
	var b strings.Builder
	b.WriteString("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"c\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n")
	b.WriteString("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	for range deltas {
		b.WriteString("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n")
	}
	b.WriteString("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	return b.String()
}

func readOpenAI(c *canned) (n int, err error) {
	client := openai.NewClient(option.WithAPIKey("none"), option.WithHTTPClient(&http.Client{Transport: c}))
	stream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model: "gpt-4o", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")},
	})
	for stream.Next() {
		chunk := stream.Current()
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			if n++; n == 1 {
				c.came()
			}
		}
	}
	return n, stream.Err()
}

func readAnthropic(c *canned) (n int, err error) {
	client := anthropic.NewClient(anthropicoption.WithAPIKey("none"), anthropicoption.WithHTTPClient(&http.Client{Transport: c}))
	stream := client.Messages.NewStreaming(context.Background(), anthropic.MessageNewParams{
		Model: "c", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hi"))},
	})
	for stream.Next() {
		if e := stream.Current(); e.Delta.Text != "" {
			if n++; n == 1 {
				c.came()
			}
		}
	}
	return n, stream.Err()
}

// readKernos generates through a kernel, whose client reads lines from a pipe.
func readKernos(dialect string) func(*canned) (int, error) {
	return func(c *canned) (n int, err error) {
		r, err := kernel.NewRegistry(model.Module(&model.Options{Client: &http.Client{Transport: c}, Configured: map[string]json.RawMessage{
			"it": json.RawMessage(`{"dialect":"` + dialect + `","baseUrl":"https://api.example.com/v1","model":"c"}`),
		}}))
		if err != nil {
			return 0, err
		}
		k := kernel.New(r, nil)
		read, write, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		counted := make(chan int)
		go func() {
			n, buf, mark := 0, make([]byte, 64<<10), []byte(`"type":"Model.Streamed"`)
			var held []byte
			for {
				m, err := read.Read(buf)
				held = append(held, buf[:m]...)
				end := bytes.LastIndexByte(held, '\n') + 1
				more := bytes.Count(held[:end], mark)
				if n == 0 && more > 0 {
					c.came()
				}
				n += more
				held = append(held[:0], held[end:]...)
				if err != nil {
					counted <- n
					return
				}
			}
		}()
		request := `{"kind":"command","type":"Model.Generate","data":{"model":"it","messages":[{"type":"input","text":"Hi"}]},"metadata":{"id":"a","timestamp":1}}` + "\n"
		_, err = stdio.Serve(context.Background(), k, strings.NewReader(request), write, nil)
		_ = write.Close()
		n = <-counted
		_ = read.Close()
		return n, err
	}
}
