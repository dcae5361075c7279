package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPacerTellsWhoSendsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPacer(ctx, 10)
		begun := time.Now()
		var told []time.Duration
		send := func(n int) {
			for range n {
				p.Wait()
				if m := p.Notice(); m != nil {
					told = append(told, time.Since(begun).Round(time.Second))
					var data struct {
						Code    int
						Limit   float64
						Message string
					}
					if err := json.Unmarshal(m.Data, &data); err != nil || m.Type != Throttled || data.Code != 429 || data.Limit != 10 ||
						!strings.HasPrefix(data.Message, "This connection sends more than 10 messages per second, which is its limit (frame-rate)") {
						t.Errorf("%s %s: %v", m.Type, m.Data, err)
					}
				}
			}
		}
		send(10) // as many as a second allows
		if time.Since(begun) != 0 {
			t.Errorf("it took %v", time.Since(begun))
		}
		send(5)
		time.Sleep(2 * time.Second)
		send(15) // and some more, but not for long
		time.Sleep(2 * time.Second)
		if len(told) != 0 {
			t.Errorf("told after %v", told)
		}
		send(10 + 10*150) // for two minutes and a half
		if got := fmt.Sprint(told); got != "[6s 1m6s 2m6s]" || time.Since(begun).Round(time.Second) != 155*time.Second {
			t.Errorf("told after %v, at %v", got, time.Since(begun))
		}
		cancel()
		at := time.Now()
		p.Wait()
		if time.Since(at) != 0 {
			t.Error("the end of the server is waited for")
		}
	})
}
