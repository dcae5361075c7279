package daemon_test

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/internal/ranked"
	"kernos/message"
)

// Of requests in people's words, nine in ten find a right syscall among the first three.
func TestRequestsInPeoplesWordsFindSyscalls(t *testing.T) {
	t.Run("a hundred", func(t *testing.T) { testRequests(t, "testdata/requests.txt", 100) })
	t.Run("more", func(t *testing.T) { testRequests(t, "testdata/morerequests.txt", 82) })
	t.Run("unseen", func(t *testing.T) { testRequests(t, "testdata/unseenrequests.txt", 64) })
}

func testRequests(t *testing.T, name string, want int) {
	const first = 3
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	meaning := ranked.NewMeaning(nil)
	asked, right := 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		request, list, ok := strings.Cut(lines.Text(), " | ")
		if !ok || strings.HasPrefix(request, "#") {
			continue
		}
		asked++
		wanted := strings.Split(list, ", ")
		for _, name := range wanted {
			if _, ok := r.Lookup(message.Type(name)); !ok {
				t.Errorf("%s: there is no %s", request, name)
			}
		}
		hits, err := r.All().Search(t.Context(), meaning, ranked.Query{Text: request, Limit: first})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, h := range hits {
			found = append(found, string(h.Syscall.Type))
		}
		if slices.ContainsFunc(found, func(name string) bool { return slices.Contains(wanted, name) }) {
			right++
		} else {
			t.Logf("%q finds %s, not %s", request, strings.Join(found, ", "), list)
		}
	}
	t.Logf("%d of %d", right, asked)
	if asked != want || 10*right < 9*asked {
		t.Errorf("%d of %d requests find a right syscall among the first %d, want nine in ten of %d", right, asked, first, want)
	}
}
