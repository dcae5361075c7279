package doctor

import (
	"syscall"
	"testing"

	"kernos/cmd/kernos/server"
	"kernos/daemon"
)

func TestTheDoctorLooksAtTheHome(t *testing.T) {
	for _, c := range []struct {
		name        string
		there, kept bool
		err         error
		want        finding
	}{
		{"all is well", true, true, nil, finding{OK: true, Text: "/h can be written"}},
		{"nothing yet", false, false, nil, finding{OK: true, Text: "/h will be created when it is needed"}},
		{"read-only, with state", true, true, syscall.EROFS, finding{OK: true, Text: "/h can only be read, so nothing there changes: read-only file system"}},
		{"read-only, and empty", true, false, syscall.EROFS, finding{Text: "/h can't be written: read-only file system"}},
		{"in a place of others", false, false, syscall.EACCES, finding{Text: "/h doesn't exist and can't be created: permission denied"}},
	} {
		d := &doctor{Server: &server.Server{Daemon: &server.Daemon{Home: daemon.Home{Dir: "/h"}}}, quiet: true}
		goOn := d.judgeHome(c.there, c.kept, c.err)
		got := d.findings[0]
		if got.OK != c.want.OK || got.Text != c.want.Text || (got.Advice == "") != (c.err == nil) || goOn != c.want.OK || d.unreachable == goOn {
			t.Errorf("%s: %+v, %t", c.name, got, goOn)
		}
	}
}
