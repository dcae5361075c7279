package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kernos/kernel"
)

// retention is how much is kept of what was: of the journal, and of outcomes.
type retention struct {
	age      age
	size     size
	outcomes someAge // of commands with an idempotency key
}

// defaultRetention keeps what there is, as long as there is room.
var defaultRetention = retention{size: 4 << 30, outcomes: someAge{age(kernel.DefaultIdempotencyTTL)}}

// add adds the flags.
func (r *retention) add(c *cobra.Command) {
	*r = defaultRetention
	c.Flags().Var(&r.age, "journal-age", "how long messages stay in the journal, such as 720h or 30d; 0 is for ever (KERNOS_JOURNAL_AGE)")
	c.Flags().Var(&r.size, "journal-size", "how much they may take before the oldest go, such as 500MB; 0 is any amount (KERNOS_JOURNAL_SIZE)")
	c.Flags().Var(&r.outcomes, "idempotency-ttl", "how long a command with an idempotency key is remembered, so that it does not run twice, such as 12h or 7d (KERNOS_IDEMPOTENCY_TTL)")
}

// An age is a time on the command line, in days too.
type age time.Duration

// Set implements the interface of a flag.
func (a *age) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		if n, err = strconv.ParseUint(days, 10, 32); n > maxDays {
			n = maxDays // which is as good as for ever
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return fmt.Errorf("expected a time such as 90m, 720h or 30d, got %q", text)
	}
	*a = age(d)
	return nil
}

// maxDays is as many as a Duration can hold.
const maxDays = uint64(math.MaxInt64 / int64(24*time.Hour))

// String implements the interface of a flag.
func (a *age) String() string {
	if *a == 0 {
		return "0"
	}
	return time.Duration(*a).String()
}

// Type implements the interface of a flag.
func (a *age) Type() string { return "TIME" }

// A size is a number of bytes on the command line.
type size int64

// units are those of a size, each 1,024 times the one before.
var units = []string{"B", "KB", "MB", "GB", "TB"}

// Set implements the interface of a flag.
func (s *size) Set(text string) error {
	number := strings.TrimRight(text, "BKMGTbkmgt")
	unit := strings.ToUpper(text[len(number):])
	factor := int64(1)
	for _, u := range units {
		if unit == "" || unit == u || unit+"B" == u {
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64/factor {
				break
			}
			*s = size(n * factor)
			return nil
		}
		factor *= 1024
	}
	return fmt.Errorf("expected a number of bytes such as 500MB or 4GB, got %q", text)
}

// String implements the interface of a flag.
func (s *size) String() string {
	n, unit := int64(*s), 0
	for n != 0 && n%1024 == 0 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + units[unit]
}

// Type implements the interface of a flag.
func (s *size) Type() string { return "BYTES" }
