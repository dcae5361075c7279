package http

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A response isn't used after its handler has returned, also when its principal ends at that moment.
// The race detector finds it if it is.
func TestAPrincipalThatEndsWithItsRequest(t *testing.T) {
	guard, all := tokens(t, map[string]principal.Grant{"caller": {Allow: []string{"Caller.End"}}})
	w := &deadlines{ResponseRecorder: httptest.NewRecorder(), expiring: make(chan struct{})}
	s := open(t, siteOptions{guard: guard, syscalls: []kernel.Syscall{
		raw("Caller.End", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
			all["caller"].End(principal.ErrRevoked)
			<-w.expiring
			emit(m.Reply([]byte(`1`)))
		}),
	}})
	r := httptest.NewRequest("POST", s.url+"/v1/call/caller/end", strings.NewReader("{}"))
	address, err := net.ResolveTCPAddr("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, address))
	r.Header.Set("Authorization", "Bearer caller")
	s.enter(Endpoint{Guard: guard}).ServeHTTP(w, r)
	w.over = true
	select {
	case <-w.expiring:
	default:
		t.Errorf("the request didn't expire: %d %s", w.Code, w.Body)
	}
}

// deadlines is the response of a request whose deadlines are set.
type deadlines struct {
	*httptest.ResponseRecorder
	over     bool
	expiring chan struct{}
}

func (d *deadlines) SetReadDeadline(when time.Time) error {
	if when.Equal(time.Unix(1, 0)) {
		close(d.expiring)
	}
	return nil
}

func (d *deadlines) SetWriteDeadline(time.Time) error {
	if d.over {
		panic("the response is used after its handler has returned")
	}
	return nil
}
