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

// Of a hundred requests in people's words, ninety find a right syscall among the first three.
func TestRequestsInPeoplesWordsFindSyscalls(t *testing.T) {
	const first, least = 3, 90
	file, err := os.Open("testdata/requests.txt")
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
	if asked != 100 || right < least {
		t.Errorf("%d of %d requests find a right syscall among the first %d, want %d of 100", right, asked, first, least)
	}
}
