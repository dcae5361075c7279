package settings

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kernos/daemon"
)

// A flag is above the environment, and that above the default.
func TestRetentionComesFromFlagsAndTheEnvironment(t *testing.T) {
	t.Setenv("KERNOS_HOME", t.TempDir())
	get := func(args ...string) (daemon.Retention, error) {
		c := &cobra.Command{}
		var o daemon.Options
		AddKernelFlags(c, &o)
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		err := Complete(c)
		return o.Retention, err
	}
	if keep, err := get(); err != nil || keep != (daemon.Retention{MaxBytes: 4 << 30, Outcomes: 24 * time.Hour}) {
		t.Errorf("by default: %+v, %v", keep, err)
	}
	t.Setenv("KERNOS_JOURNAL_AGE", "2d")
	t.Setenv("KERNOS_JOURNAL_SIZE", "1MB")
	t.Setenv("KERNOS_IDEMPOTENCY_TTL", "7d")
	if keep, err := get(); err != nil || keep != (daemon.Retention{MaxAge: 48 * time.Hour, MaxBytes: 1 << 20, Outcomes: 7 * 24 * time.Hour}) {
		t.Errorf("from the environment: %+v, %v", keep, err)
	}
	if keep, err := get("--journal-age=0", "--journal-size=1KB", "--idempotency-ttl=90m"); err != nil || keep != (daemon.Retention{MaxBytes: 1 << 10, Outcomes: 90 * time.Minute}) {
		t.Errorf("from flags: %+v, %v", keep, err)
	}
	t.Setenv("KERNOS_IDEMPOTENCY_TTL", "0")
	if _, err := get(); err == nil || err.Error() != "KERNOS_IDEMPOTENCY_TTL: must be more than 0" {
		t.Errorf("a command that is forgotten at once: %v", err)
	}
}

// The help text has every setting in one group, and few in the first.
func TestTheHelpTextGroupsAllSettings(t *testing.T) {
	text := grouped(serveCommand().Flags(), ServeGroups, "Other")
	if strings.Contains(text, "Other:") {
		t.Errorf("settings are in no group:\n%s", text)
	}
	for _, name := range names {
		if n := len(regexp.MustCompile(`(?m)^ +--`+name+`( |$)`).FindAllString(text, -1)); n != 1 {
			t.Errorf("--%s is there %d times", name, n)
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
	if n := strings.Count(first, "\n      --"); n != 10 {
		t.Errorf("%d settings are first:\n%s", n, first)
	}
}
