package http

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Browsers connect before they have something to ask.
func TestAConnectionThatSaysNothingDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, siteOptions{memory: true})
		conn, err := s.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		synctest.Wait()
		begun := time.Now()
		s.stop()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		close(s.ended)
		// Shutdown looks again after a moment, which grows.
		if took := time.Since(begun); took >= time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
