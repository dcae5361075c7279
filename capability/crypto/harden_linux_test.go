package crypto_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"kernos/capability/crypto"
)

func TestHarden(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &before); err != nil {
		t.Fatal(err)
	}
	if err := crypto.Harden(); err != nil {
		t.Fatal(err)
	}
	var after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &after); err != nil || after.Cur != 0 || after.Max != before.Max {
		t.Errorf("core dumps: %+v, %v", after, err)
	}
	if mode, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || mode != 0 {
		t.Errorf("dumpable: %d, %v", mode, err)
	}
}
