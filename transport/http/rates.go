package http

import (
	"math"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates keep track of how many requests come from each address.
type rates struct {
	limit rate.Limit // 0 is any number
	burst int

	mu   sync.Mutex
	from map[string]*rate.Limiter
}

// maxAddresses is how many addresses are kept track of. When there are more, those are
// forgotten that have been silent; if all are busy, they share what one may have.
const maxAddresses = 8192

func newRates(perSecond float64) *rates {
	return &rates{
		limit: rate.Limit(perSecond), burst: int(min(max(1, math.Ceil(perSecond)), math.MaxInt32)),
		from: make(map[string]*rate.Limiter),
	}
}

// allow reports whether one more request may come from an address.
func (r *rates) allow(remote string, now time.Time) bool {
	if r.limit <= 0 {
		return true
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = "" // a unix socket: its peers are one user
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket := r.from[host]
	if bucket == nil {
		if len(r.from) >= maxAddresses {
			r.forget(now)
		}
		if len(r.from) >= maxAddresses {
			host = "others"
			bucket = r.from[host]
		}
		if bucket == nil {
			bucket = rate.NewLimiter(r.limit, r.burst)
			r.from[host] = bucket
		}
	}
	return bucket.AllowN(now, 1)
}

// forget drops the addresses that may send as much as if they had sent nothing.
func (r *rates) forget(now time.Time) {
	for host, bucket := range r.from {
		if bucket.TokensAt(now) >= float64(r.burst) {
			delete(r.from, host)
		}
	}
}
