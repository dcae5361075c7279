package conformance

import (
	"strings"
	"testing"

	"kernos/internal/testkit"
)

// TestOpenAPI checks the description of a served kernel with a validator that others wrote, and calls ten routes with a
// client that is made of the description (npm/openapi.js). `make npm` installs both.
func TestOpenAPI(t *testing.T) {
	k := startKernel(t, testkit.Program(t, "kernos/cmd/kernos"), "127.0.0.1:0")
	out, err := runClient(t, "openapi.js", k.url, servedToken)
	if err != nil || !strings.HasSuffix(out, "fine\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
