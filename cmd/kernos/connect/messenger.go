package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/client"
	"kernos/message"
	"kernos/message/ndjson"
	"kernos/transport"
)

// A messenger sends messages to a server over HTTP: one request each, whose answer is a stream
// of lines.
type messenger struct {
	server *Server
	http   *http.Client
	base   string
}

func newMessenger(s *Server) (*messenger, error) {
	c, base, err := s.Target.HTTPClient()
	return &messenger{server: s, http: c, base: base}, err
}

func (m *messenger) close() error {
	m.http.CloseIdleConnections()
	return nil
}

// do sends a request with the server's token. The caller closes the body.
func (m *messenger) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, m.base+path, body)
	if err != nil {
		return nil, err
	}
	if m.server.Target.Token != "" {
		r.Header.Set("Authorization", "Bearer "+m.server.Target.Token)
	}
	response, err := m.http.Do(r)
	if err != nil {
		return nil, client.DialError(m.server.Target.URL, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // the status counts
	_ = response.Body.Close()
	return nil, &client.Refused{URL: m.server.Target.URL, Status: response.StatusCode, Text: string(bytes.ToValidUTF8(text, nil))}
}

// call is a [request.Caller].
func (m *messenger) call(ctx context.Context, request message.Message, event func(message.Message)) (message.Message, error) {
	if request.Metadata.ID == "" {
		request.Metadata.ID = message.ID(ulid.Make().String())
	}
	request.Metadata.Timestamp = time.Now().UnixMilli()
	response, err := m.do(ctx, http.MethodPost, "/v1/messages", bytes.NewReader(append(message.Append(nil, &request), '\n')))
	if err != nil {
		if ctx.Err() != nil {
			return message.Message{}, ctx.Err()
		}
		return message.Message{}, m.server.Explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := ndjson.NewReader(response.Body, nil)
	for {
		line, err := lines.Next()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return message.Message{}, &client.Lost{Err: err}
		}
		answer, err := message.Decode(line)
		switch {
		case err != nil:
			return message.Message{}, fmt.Errorf("%s answers with a line that is not a message: %w", m.server.Target.URL, err)
		case answer.Type == transport.Disconnected && answer.Kind == message.KindError:
			e, err := message.ParseError(answer.Data)
			return message.Message{}, errors.Join(e, err)
		case answer.Metadata.Causation != request.Metadata.ID:
			continue
		}
		if answer.Data, err = m.fetch(ctx, answer.Data); err != nil {
			return message.Message{}, err
		}
		if answer.Kind.Answers() {
			return answer, nil
		}
		if event != nil {
			event(answer)
		}
	}
}

// fetch returns the data of an answer. If it was too long for a line, the server has it as a
// blob, whose name is the last part of its path.
func (m *messenger) fetch(ctx context.Context, data json.RawMessage) (json.RawMessage, error) {
	if !bytes.HasPrefix(data, []byte(`{"dataRef":`)) {
		return data, nil
	}
	var ref struct{ DataRef message.BlobPointer }
	if err := json.Unmarshal(data, &ref); err != nil {
		return data, nil
	}
	response, err := m.do(ctx, http.MethodGet, "/v1/blobs/"+path.Base(ref.DataRef.Path), nil)
	if err != nil {
		return nil, fmt.Errorf("the answer is a blob that can't be fetched: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}
